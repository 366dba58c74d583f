"""Calls that are given the tensors for their results (out=), and item() that nobody takes: families of operator_cases.py."""
import torch

A = torch.ops.aten


def given(f, *shapes, dtype=torch.float32):
    """f(out=..) of new tensors, which are read afterwards through views that were there before."""
    rooms = [torch.full(s, 7, dtype=d) for s, d in (x if x and isinstance(x[-1], torch.dtype) else (x, dtype) for x in shapes)]
    views = [x.reshape(-1) for x in rooms]
    f(out=rooms[0] if len(rooms) == 1 else tuple(rooms))
    return (*rooms, *(x + 1 for x in views))


def given_results(c):
    x, y, m = c.randn(4, 3), c.randn(4, 3), c.randn(4, 4)
    i64, boolean = torch.int64, torch.bool
    c.case("pointwise", lambda x, y: (*given(lambda out: torch.atan2(x, y, out=out), (4, 3)), *given(lambda out: torch.add(x, y, alpha=2, out=out), (4, 3)),
                                      *given(lambda out: torch.exp(x, out=out), (4, 3)), *given(lambda out: torch.gt(x, 0.2, out=out), ((4, 3), boolean)),
                                      *given(lambda out: torch.clamp(x, -0.5, 0.5, out=out), (4, 3))), x, y)
    c.case("wider", lambda x, i: (*given(lambda out: torch.mul(x, 2, out=out), ((4, 3), torch.float64)), *given(lambda out: torch.add(i, 1, out=out), (4, 3)),
                                  *given(lambda out: torch.logical_not(i, out=out), ((4, 3), i64))), x, c.ints(4, 3))
    c.case("reductions", lambda x, i: (*given(lambda out: torch.sum(x, 1, out=out), (4,)), *given(lambda out: torch.mean(x, (0, 1), out=out), ()),
                                       *given(lambda out: torch.sum(i, 0, keepdim=True, out=out), ((1, 3), torch.float32)), *given(lambda out: torch.any(x > 0, 1, out=out), ((4,), boolean)),
                                       *given(lambda out: torch.std(x, 1, out=out), (4,)), *given(lambda out: torch.cumsum(i, 1, out=out), ((4, 3), torch.float64)),
                                       *given(lambda out: torch.argmax(x, 1, out=out), ((4,), i64))), x, c.ints(4, 3))
    c.case("several", lambda x: (*given(lambda out: torch.max(x, 1, out=out), (4,), ((4,), i64)), *given(lambda out: torch.sort(x, 1, out=out), (4, 3), ((4, 3), i64)),
                                 *given(lambda out: torch.topk(x, 2, 1, out=out), (4, 2), ((4, 2), i64)), *given(lambda out: torch.aminmax(x, dim=0, out=out), (3,), (3,)),
                                 *given(lambda out: torch.frexp(x, out=out), (4, 3), ((4, 3), torch.int32)), *given(lambda out: torch.median(x, 1, out=out), (4,), ((4,), i64))), x)
    c.case("products", lambda x, y, m: (*given(lambda out: torch.mm(m, x, out=out), (4, 3)), *given(lambda out: torch.addmm(y, m, x, beta=0.5, out=out), (4, 3)),
                                        *given(lambda out: torch.matmul(x.t(), m, out=out), (3, 4))), x, y, m)
    c.case("joins", lambda x, y, i: (*given(lambda out: torch.cat([x, y], 1, out=out), (4, 6)), *given(lambda out: torch.stack([x, y], out=out), (2, 4, 3)),
                                     *given(lambda out: torch.gather(x, 1, i, out=out), (4, 2)), *given(lambda out: torch.index_select(x, 0, i[0], out=out), (2, 3)),
                                     *given(lambda out: torch.where(x > y, x, y, out=out), (4, 3))), x, y, c.ints(4, 2, low=0, high=3))
    c.case("made", lambda x: (*given(lambda out: torch.arange(0, 9, 2, out=out), (5,)), *given(lambda out: torch.eye(3, 4, out=out), ((3, 4), i64)),
                              *given(lambda out: torch.linspace(0, 1, 5, out=out), (5,)), *given(lambda out: torch.full((2, 3), 2.5, out=out), (2, 3)), *given(lambda out: torch.ones(4, out=out), ((4,), boolean)),
                              x * 2), x)

    def grown(x, y):
        room = torch.empty(0)
        torch.mul(x, y, out=room)
        values, places = torch.empty(0), torch.empty(0, dtype=torch.int64)
        torch.max(room, 0, out=(values, places))
        return room + 1, values, places

    def input_written(x, y, room):
        torch.sub(x, y, out=room)
        torch.relu(room[1:3]).sum(0)
        torch.sigmoid(y[:2], out=room[2:])
        return room * 2

    c.case("grown", grown, x, y)
    c.case("input_written", input_written, x, y, c.randn(4, 3))
    c.case("strided", lambda x, room: (torch.neg(x, out=room.t()[1:5]), room.sum(0)), x, c.randn(3, 5))
    c.case("item_not_taken", lambda x: (A.item.default(A.add.Tensor(A.div.Tensor_mode(1024, 256, rounding_mode="trunc"), 1)), x + 1)[1:], x)
    offsets = torch.tensor([0, 2, 2, 5, 9])
    c.case("jagged", lambda v, o, d: (A._jagged_to_padded_dense_forward(v, [o], [4], 0.5), A._jagged_to_padded_dense_forward(v, [o], [3]), A._padded_dense_to_jagged_forward(d, [o], 9)),
           c.randn(9, 2), offsets, c.randn(4, 4, 2))


def add(family):
    family(given_results)
