"""Exports models from transformers, torchvision, timm and small modules that mutate, with what PyTorch computes with them.

    python3 scripts/export/model_zoo.py FOLDER [NAME ...]      (default: every model; --list prints their names)

One FOLDER/NAME each: default.pt2 (as torch.export.export gives it: undecomposed), inputs.npz, expected.npz (recording.py);
with --decomposed also decomposed.pt2. Weights are random. --small: only those small enough to be tracked (graphs/zoo, packed by scripts/archive);
--usual: only the others, which have their usual width.
"""
import os
import sys
import traceback

import torch
from recording import record, shake

SMALL, USUAL = {}, {}


def small(function):
    SMALL[function.__name__] = function
    return function


class Pick(torch.nn.Module):
    """A model of transformers that yields the named fields of its output."""

    def __init__(self, model, *fields, **kwargs):
        super().__init__()
        self.model, self.fields, self.kwargs = model, fields, kwargs

    def forward(self, *inputs):
        output = self.model(*inputs, **self.kwargs)
        return tuple(getattr(output, field) for field in self.fields)


def ids(*shape, vocabulary=97):
    return torch.randint(2, vocabulary, shape)


def pixels(size=32, batch=2):
    return torch.randn(batch, 3, size, size)


TINY = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
TEXT = dict(TINY, vocab_size=97, max_position_embeddings=64)


def hugging_face(config_name, model_name, inputs, fields=("last_hidden_state",), call=None, **config):
    import transformers

    settings = getattr(transformers, config_name)(**config)
    model = getattr(transformers, model_name)._from_config(settings) if hasattr(
        getattr(transformers, model_name), "_from_config") else getattr(transformers, model_name)(settings)
    return Pick(model, *fields, **(call or {})), inputs


@small
def bert():
    mask = torch.ones(2, 19, dtype=torch.int64)
    mask[1, 13:] = 0
    return hugging_face("BertConfig", "BertModel", (ids(2, 19), mask), ("last_hidden_state", "pooler_output"), **TEXT)


@small
def distilbert():
    return hugging_face("DistilBertConfig", "DistilBertModel", (ids(2, 19),), vocab_size=97, dim=32, n_layers=2, n_heads=4,
                        hidden_dim=48, max_position_embeddings=64)


@small
def albert():
    return hugging_face("AlbertConfig", "AlbertModel", (ids(2, 19),), embedding_size=16, **TEXT)


@small
def llama():
    return hugging_face("LlamaConfig", "LlamaForCausalLM", (ids(2, 17),), ("logits",), dict(use_cache=False),
                        num_key_value_heads=2, **TEXT)


@small
def qwen2():
    return hugging_face("Qwen2Config", "Qwen2ForCausalLM", (ids(2, 17),), ("logits",), dict(use_cache=False),
                        num_key_value_heads=2, **TEXT)


@small
def qwen3():
    return hugging_face("Qwen3Config", "Qwen3ForCausalLM", (ids(2, 17),), ("logits",), dict(use_cache=False),
                        num_key_value_heads=2, head_dim=8, **TEXT)


@small
def gemma2():
    return hugging_face("Gemma2Config", "Gemma2ForCausalLM", (ids(2, 17),), ("logits",), dict(use_cache=False),
                        num_key_value_heads=2, head_dim=8, sliding_window=8, **TEXT)


@small
def phi():
    return hugging_face("PhiConfig", "PhiForCausalLM", (ids(2, 17),), ("logits",), dict(use_cache=False), **TEXT)


@small
def gpt_neox():
    return hugging_face("GPTNeoXConfig", "GPTNeoXForCausalLM", (ids(2, 17),), ("logits",), dict(use_cache=False), **TEXT)


@small
def opt():
    return hugging_face("OPTConfig", "OPTForCausalLM", (ids(2, 17),), ("logits",), dict(use_cache=False), vocab_size=97,
                        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, word_embed_proj_dim=32,
                        max_position_embeddings=64)


@small
def mixtral():
    return hugging_face("MixtralConfig", "MixtralForCausalLM", (ids(2, 17),), ("logits",), dict(use_cache=False),
                        num_key_value_heads=2, num_local_experts=4, experts_implementation="batched_mm", **TEXT)


@small
def t5():
    model, inputs = hugging_face("T5Config", "T5Model", (ids(2, 13), None, ids(2, 7)), call=dict(use_cache=False), vocab_size=97,
                                 d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)

    class Translate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model.model

        def forward(self, source, target):
            return self.model(input_ids=source, decoder_input_ids=target, use_cache=False).last_hidden_state

    return Translate(), (inputs[0], inputs[2])


@small
def bart():
    model, _ = hugging_face("BartConfig", "BartModel", (), vocab_size=97, d_model=32, encoder_layers=1, decoder_layers=1,
                            encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
                            max_position_embeddings=64)

    class Translate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model.model

        def forward(self, source, target):
            return self.model(input_ids=source, decoder_input_ids=target, use_cache=False).last_hidden_state

    return Translate(), (ids(2, 13), ids(2, 7))


@small
def whisper_encoder():
    model, _ = hugging_face("WhisperConfig", "WhisperModel", (), vocab_size=97, d_model=32, encoder_layers=2, decoder_layers=1,
                            encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
                            num_mel_bins=16, max_source_positions=30, max_target_positions=16, pad_token_id=0, bos_token_id=1,
                            eos_token_id=2, decoder_start_token_id=1)
    return Pick(model.model.encoder, "last_hidden_state"), (torch.randn(2, 16, 60),)


@small
def vit():
    return hugging_face("ViTConfig", "ViTModel", (pixels(),), ("last_hidden_state", "pooler_output"), image_size=32, patch_size=8, **TINY)


@small
def dinov2():
    return hugging_face("Dinov2Config", "Dinov2Model", (pixels(),), image_size=32, patch_size=8, hidden_size=32,
                        num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2)


@small
def clip_text():
    return hugging_face("CLIPTextConfig", "CLIPTextModel", (ids(2, 19),), ("last_hidden_state", "pooler_output"), **TEXT)


@small
def swin():
    return hugging_face("SwinConfig", "SwinModel", (pixels(),), image_size=32, patch_size=2, embed_dim=16, depths=[2, 2],
                        num_heads=[2, 4], window_size=4)


@small
def segformer():
    return hugging_face("SegformerConfig", "SegformerForSemanticSegmentation", (pixels(64),), ("logits",),
                        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], decoder_hidden_size=16, num_labels=5)


@small
def convnext():
    return hugging_face("ConvNextConfig", "ConvNextModel", (pixels(64),), hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])


@small
def resnet_hf():
    return hugging_face("ResNetConfig", "ResNetModel", (pixels(),), ("pooler_output",), embedding_size=8, hidden_sizes=[8, 16, 24],
                        depths=[1, 1, 1], layer_type="basic")


@small
def densenet():
    from torchvision.models import DenseNet

    return DenseNet(growth_rate=4, block_config=(2, 2), num_init_features=8, bn_size=2, num_classes=7), (pixels(45, 1),)


@small
def efficientnet():
    from torchvision.models.efficientnet import EfficientNet, MBConvConfig

    blocks = [MBConvConfig(1, 3, 1, 32, 8, 1, 1, 1), MBConvConfig(4, 3, 2, 8, 16, 2, 1, 1), MBConvConfig(4, 5, 2, 16, 24, 1, 1, 1)]
    return EfficientNet(blocks, dropout=0.2, last_channel=40, num_classes=7), (pixels(37),)


@small
def wav2vec2():
    return hugging_face("Wav2Vec2Config", "Wav2Vec2Model", (torch.randn(2, 400),), conv_dim=[16, 16], conv_kernel=[10, 3],
                        conv_stride=[5, 2], num_feat_extract_layers=2, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2,
                        vocab_size=32, **TINY)


@small
def mamba():
    return hugging_face("MambaConfig", "MambaModel", (ids(2, 11),), call=dict(use_cache=False), vocab_size=97, hidden_size=16,
                        num_hidden_layers=1, state_size=4)


class BatchNormTraining(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.linear = torch.nn.Linear(8, 5)
        self.flat_norm = torch.nn.BatchNorm1d(5, momentum=0.3)

    def forward(self, x):
        return self.flat_norm(self.linear(self.norm(self.convolution(x)).relu().mean((2, 3))))


@small
def batch_norm_training():
    return BatchNormTraining().train(), (torch.randn(7, 3, 9, 11),)


class Counters(torch.nn.Module):
    """Counts calls, keeps a moving average and the last rows seen."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(3))
        self.register_buffer("average", torch.randn(6))
        self.register_buffer("history", torch.randn(4, 6), persistent=False)
        self.linear = torch.nn.Linear(6, 6)

    def forward(self, x):
        y = self.linear(x)
        self.calls.add_(1)
        self.average.mul_(0.9).add_(y.mean(0), alpha=0.1)
        self.history[1:] = self.history[:-1].clone()
        self.history[0].copy_(y[0])
        return y * self.calls + self.average, self.history.sum(0)


@small
def counters():
    return Counters(), (torch.randn(5, 6),)


class CachedAttention(torch.nn.Module):
    """One step of decoding with a cache of keys and values that is written at a run-time position."""

    def __init__(self, batch=2, heads=4, length=16, depth=8):
        super().__init__()
        self.heads, self.depth = heads, depth
        self.register_buffer("keys", torch.randn(batch, heads, length, depth))
        self.register_buffer("values", torch.randn(batch, heads, length, depth))
        self.project = torch.nn.Linear(heads * depth, 3 * heads * depth)
        self.out = torch.nn.Linear(heads * depth, heads * depth)

    def forward(self, x, position):
        batch = x.shape[0]
        q, k, v = self.project(x).view(batch, 1, 3, self.heads, self.depth).permute(2, 0, 3, 1, 4).unbind(0)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        mask = torch.arange(self.keys.shape[2]) <= position
        y = torch.nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask.view(1, 1, 1, -1))
        return self.out(y.transpose(1, 2).reshape(batch, 1, -1))


@small
def kv_cache():
    return CachedAttention(), (torch.randn(2, 1, 32), torch.tensor([5]))


class LlamaStep(torch.nn.Module):
    """transformers' own static cache, as buffers."""

    def __init__(self):
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM
        from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

        config = LlamaConfig(num_key_value_heads=2, **TEXT)
        model = LlamaForCausalLM(config)
        model.generation_config.use_cache = True
        model.generation_config.cache_implementation = "static"
        model.generation_config.cache_config = {"batch_size": 1, "max_cache_len": 24}
        self.step = TorchExportableModuleWithStaticCache(model, batch_size=1, max_cache_len=24, device=torch.device("cpu"))

    def _apply(self, function, recurse=True):
        super()._apply(function, recurse)
        for i, layer in enumerate(self.step.static_cache.layers):  # the cache holds the buffers a second time
            layer.keys = getattr(self.step, f"key_cache_{i}")
            layer.values = getattr(self.step, f"value_cache_{i}")
        return self

    def forward(self, token, position):
        return self.step(input_ids=token, cache_position=position)


@small
def llama_static_cache():
    return LlamaStep(), (ids(1, 1), torch.tensor([7]))


class MutatedInputs(torch.nn.Module):
    def forward(self, state, x, table):
        state.mul_(2).add_(x)
        table[:, 1::2].copy_(x[:, :3])
        x.transpose(0, 1)[0].zero_()
        return state[:2], table.sum()


@small
def mutated_inputs():
    return MutatedInputs(), (torch.randn(5, 6), torch.randn(5, 6), torch.randn(5, 7))


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(7, 9, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = torch.nn.GRU(18, 5)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        z, state = self.gru(y)
        return z, state, h, c


@small
def recurrent():
    return Recurrent(), (torch.randn(3, 6, 7),)


class EncoderLayers(torch.nn.Module):
    """torch.nn's own attention: masks, padding, the encoder and the decoder layer."""

    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 48, batch_first=True), 2,
                                                   enable_nested_tensor=False)
        self.decoder = torch.nn.TransformerDecoderLayer(32, 4, 48, batch_first=True, activation="gelu", norm_first=True)
        self.attention = torch.nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, source, target, padding):
        memory = self.encoder(source, src_key_padding_mask=padding)
        causal = torch.nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        decoded = self.decoder(target, memory, tgt_mask=causal)
        attended, weights = self.attention(decoded, memory, memory, need_weights=True)
        return attended, weights


@small
def encoder_layers():
    padding = torch.zeros(2, 11, dtype=torch.bool)
    padding[1, 8:] = True
    return EncoderLayers(), (torch.randn(2, 11, 32), torch.randn(2, 5, 32), padding)


def usual(name, make):
    USUAL[name] = make


def torchvision_model(name, size=64, **settings):
    def make():
        import torchvision

        return getattr(torchvision.models, name)(weights=None, **settings), (pixels(size, 1),)
    return make


def timm_model(name, size=224, **settings):
    def make():
        import timm

        return timm.create_model(name, pretrained=False, **settings), (pixels(size, 1),)
    return make


for name in ("resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5", "efficientnet_b0", "densenet121",
             "mnasnet0_5", "regnet_y_400mf", "convnext_tiny", "alexnet", "vgg11_bn"):
    usual("torchvision_" + name, torchvision_model(name))
usual("torchvision_googlenet", torchvision_model("googlenet", 96, init_weights=False))
usual("torchvision_swin_t", torchvision_model("swin_t"))
usual("torchvision_vit", torchvision_model("vit_b_32", 224, num_classes=10))
for name in ("vit_tiny_patch16_224", "deit3_small_patch16_224", "mixer_s32_224", "resmlp_12_224", "convnext_atto", "efficientnet_lite0",
             "mobilenetv4_conv_small", "gmlp_ti16_224", "poolformer_s12", "levit_128s", "coatnet_nano_rw_224", "cait_xxs24_224",
             "xcit_nano_12_p16_224", "beit_base_patch16_224", "eva02_tiny_patch14_224", "repvgg_a0", "edgenext_xx_small",
             "fastvit_t8", "ghostnet_100", "tinynet_e", "resnet26d", "nf_resnet50"):
    usual("timm_" + name, timm_model(name))


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    everything = {**SMALL, **USUAL}
    if "--list" in sys.argv:
        print("\n".join(everything))
        return
    folder, names = arguments[0], arguments[1:]
    chosen = names or (SMALL if "--small" in sys.argv else USUAL if "--usual" in sys.argv else everything)
    failed = 0
    for name in chosen:
        torch.manual_seed(0)
        try:
            model, inputs = everything[name]()
            if name != "batch_norm_training":
                model.eval()
            shake(model)
            program, values = record(model, inputs, os.path.join(folder, name), with_decomposed="--decomposed" in sys.argv,
                                     frames=1 if name in SMALL else 0, packed=False,
                                     # A cache that holds the buffers a second time is seen through by a strict export only.
                                     strict=name == "llama_static_cache")
            eager, reference = values["output_0"].double(), values["reference_0"].double()
            print(f"{name}: {len(program.graph.nodes)} nodes, eager against float64 "
                  f"{float((eager - reference).norm() / reference.norm()):.1e}, mutated {sum('mutated' in k for k in values) // 2}")
        except Exception as error:  # one that PyTorch cannot export must not hide the others
            failed += 1
            print(f"{name}: FAILED {type(error).__name__}: {str(error).splitlines()[0][:200]}")
            if "--trace" in sys.argv:
                traceback.print_exc()
        sys.stdout.flush()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
