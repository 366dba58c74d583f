// Bessel and Airy functions by the rational and Chebyshev approximations of S. Moshier's Cephes
// library, as PyTorch takes them (without the leading 1 of some denominators, which moves those
// that oscillate by up to 2e-7), and the sums that such approximations are.
#pragma once

#include "tc_math.h"

/// c[0] x^n + ... + c[n].
template <class T, class... C> TC_FN T tc_horner(T x, double first, C... further) {
  T sum = T(first);
  ((sum = sum * x + T(further)), ...);
  return sum;
}
/// A sum of Chebyshev polynomials in x / 2, the coefficient of the highest first, that of the
/// lowest halved.
template <class T, class... C> TC_FN T tc_clenshaw(T x, double first, C... further) {
  T last = T(0), before = T(0), sum = T(first);
  ((before = last, last = sum, sum = x * last - before + T(further)), ...);
  return T(0.5) * (sum - before);
}
template <class T> TC_FN T tc_not_a_number() { return static_cast<T>(TC_INF - TC_INF); }
template <class T> TC_FN T tc_infinity() { return static_cast<T>(TC_INF); }

// ---- Bessel functions of orders 0 and 1; each is NaN where its argument is an infinity that
// PyTorch's formula makes NaN.

/// What Bessel functions of one order are beyond 5: waves whose weights are two series.
template <class T> struct TcWaves {
  T p, q, cosine, sine, root;
  TC_MEMBER T first() const { return (p * cosine - q * sine) * T(kScale) / root; }
  TC_MEMBER T second() const { return (p * sine + q * cosine) * T(kScale) / root; }
  static constexpr double kScale = 0.797884560802865355880; // of 2 / pi, the square root
};
template <class T> TC_FN TcWaves<T> tc_waves0_of(T x) {
  const T z = T(25) / (x * x), angle = x - T(0.785398163397448309616);
  const T p = tc_horner(z, 0.0007969367292973471, 0.08283523921074408, 1.239533716464143,
                        5.447250030587687, 8.74716500199817, 5.303240382353949, 1.0) /
              tc_horner(z, 0.0009244088105588637, 0.08562884743544745, 1.2535274390105895,
                        5.470977403304171, 8.761908832370695, 5.306052882353947, 1.0);
  const T q =
      tc_horner(z, -0.011366383889846916, -1.2825271867050931, -19.553954425773597,
                -93.20601521237683, -177.68116798048806, -147.07750515495118, -51.41053267665993,
                -6.050143506007285) /
      tc_horner(z, 64.3178256118178, 856.4300259769806, 3882.4018360540163, 7240.467741956525,
                5930.727011873169, 2062.0933166032783, 242.0057402402914);
  return {p, T(5) / x * q, tc_cos(angle), tc_sin(angle), tc_sqrt(x)};
}
template <class T> TC_FN TcWaves<T> tc_waves1_of(T x) {
  const T z = T(25) / (x * x), angle = x - T(2.35619449019234492885);
  const T p = tc_horner(z, 0.0007621256162081731, 0.07313970569409176, 1.1271960812968493,
                        5.112079511468076, 8.424045901417724, 5.214515986823615, 1.0) /
              tc_horner(z, 0.0005713231280725487, 0.06884559087544954, 1.105142326340617,
                        5.073863861286015, 8.399855543276042, 5.209828486823619, 1.0);
  const T q =
      tc_horner(z, 0.05108625947501766, 4.982138729512334, 75.82382841325453, 366.7796093601508,
                710.8563049989261, 597.4896124006136, 211.68875710057213, 25.207020585802372) /
      tc_horner(z, 74.23732770356752, 1056.4488603826283, 4986.410583376536, 9562.318924047562,
                7997.041604473507, 2826.1927851763908, 336.0936078106983);
  return {p, T(5) / x * q, tc_cos(angle), tc_sin(angle), tc_sqrt(x)};
}

template <class T> TC_FN T tc_j0_of(T x) {
  x = tc_abs(x);
  const T square = x * x;
  if (x <= T(5)) {
    if (x < T(1e-5))
      return T(1) - square / T(4);
    const T p = tc_horner(square, -4794432209.782018, 1956174919465.5657, -249248344360967.72,
                          9708622510473064.0);
    const T q = tc_horner(square, 499.563147152651, 173785.4016763747, 48440965.83399621,
                          11185553704.535683, 2112775201154.892, 310518229857422.56,
                          3.1812195594320496e+16, 1.7108629408104315e+18);
    return (square - T(5.78318596294678452118)) * (square - T(30.4712623436620863991)) * p / q;
  }
  return tc_waves0_of(x).first();
}
template <class T> TC_FN T tc_y0_of(T x) {
  constexpr double kTwoOverPi = 0.636619772367581343076;
  if (x == T(0))
    return -tc_infinity<T>();
  if (x < T(0))
    return tc_not_a_number<T>();
  const T square = x * x;
  if (x <= T(5)) {
    const T p = tc_horner(square, 15592.436785523574, -14663929.59039716, 5435264770.518765,
                          -982136065717.9115, 87590639439536.7, -3466283033847297.0,
                          4.4273326857256984e+16, -1.8495080043698668e+16);
    const T q =
        tc_horner(square, 1041.2835366425984, 626107.330137135, 268919633.39381415,
                  86400248710.3935, 20297961275010.555, 3171577528429750.5, 2.5059625617265306e+17);
    return p / q + T(kTwoOverPi) * tc_log(x) * tc_j0_of(x);
  }
  return tc_waves0_of(x).second();
}
template <class T> TC_FN T tc_j1_of(T signed_x) {
  const T x = tc_abs(signed_x), square = x * x;
  if (x <= T(5)) {
    const T p = tc_horner(square, -899971225.7055594, 452228297998.19403, -72749424522181.83,
                          3682957328638529.0);
    const T q = tc_horner(square, 620.8364781180543, 256987.25675774884, 83514679.14319493,
                          22151159547.97925, 4749141220799.914, 784369607876235.9,
                          8.952223361846274e+16, 5.322786203326801e+18);
    return p / q * signed_x * (square - T(14.6819706421238932572)) *
           (square - T(49.2184563216946036703));
  }
  const T value = tc_waves1_of(x).first();
  return signed_x < T(0) ? -value : value;
}
template <class T> TC_FN T tc_y1_of(T x) {
  constexpr double kTwoOverPi = 0.636619772367581343076;
  if (x == T(0))
    return -tc_infinity<T>();
  if (x < T(0))
    return tc_not_a_number<T>();
  const T square = x * x;
  if (x <= T(5)) {
    const T p = tc_horner(square, 1263204747.9017804, -647355876379.1603, 114509511541823.73,
                          -8127702555013251.0, 2.024394757135949e+17, -7.788771962659501e+17);
    const T q = tc_horner(square, 594.3015923461282, 235564.09294306856, 73481194.44597217,
                          18760131610.870617, 3882312774962.3857, 620557727146953.8,
                          6.871410873553005e+16, 3.9727060811656064e+18);
    return x * (p / q) + T(kTwoOverPi) * (tc_j1_of(x) * tc_log(x) - T(1) / x);
  }
  return tc_waves1_of(x).second();
}

/// exp(-|x|) I0(x).
template <class T> TC_FN T tc_scaled_i0_of(T x) {
  x = tc_abs(x);
  if (x <= T(8))
    return tc_clenshaw(
        x / T(2) - T(2), -4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16,
        1.715391285555133e-15, -1.1685332877993451e-14, 7.676185498604936e-14,
        -4.856446783111929e-13, 2.95505266312964e-12, -1.726826291441556e-11, 9.675809035373237e-11,
        -5.189795601635263e-10, 2.6598237246823866e-09, -1.300025009986248e-08,
        6.046995022541919e-08, -2.670793853940612e-07, 1.1173875391201037e-06,
        -4.4167383584587505e-06, 1.6448448070728896e-05, -5.754195010082104e-05,
        0.00018850288509584165, -0.0005763755745385824, 0.0016394756169413357,
        -0.004324309995050576, 0.010546460394594998, -0.02373741480589947, 0.04930528423967071,
        -0.09490109704804764, 0.17162090152220877, -0.3046826723431984, 0.6767952744094761);
  return tc_clenshaw(T(32) / x - T(2), -7.233180487874754e-18, -4.830504485944182e-18,
                     4.46562142029676e-17, 3.461222867697461e-17, -2.8276239805165836e-16,
                     -3.425485619677219e-16, 1.7725601330565263e-15, 3.8116806693526224e-15,
                     -9.554846698828307e-15, -4.150569347287222e-14, 1.54008621752141e-14,
                     3.8527783827421426e-13, 7.180124451383666e-13, -1.7941785315068062e-12,
                     -1.3215811840447713e-11, -3.1499165279632416e-11, 1.1889147107846439e-11,
                     4.94060238822497e-10, 3.3962320257083865e-09, 2.266668990498178e-08,
                     2.0489185894690638e-07, 2.8913705208347567e-06, 6.889758346916825e-05,
                     0.0033691164782556943, 0.8044904110141088) /
         tc_sqrt(x);
}
template <class T> TC_FN T tc_i0_of(T x) { return tc_exp(tc_abs(x)) * tc_scaled_i0_of(x); }
/// exp(-|x|) I1(x).
template <class T> TC_FN T tc_scaled_i1_of(T signed_x) {
  const T x = tc_abs(signed_x);
  T value;
  if (x <= T(8))
    value = x * tc_clenshaw(x / T(2) - T(2), 2.7779141127610464e-18, -2.111421214358166e-17,
                            1.5536319577362005e-16, -1.1055969477353862e-15, 7.600684294735408e-15,
                            -5.042185504727912e-14, 3.223793365945575e-13, -1.9839743977649436e-12,
                            1.1736186298890901e-11, -6.663489723502027e-11, 3.625590281552117e-10,
                            -1.8872497517228294e-09, 9.381537386495773e-09, -4.445059128796328e-08,
                            2.0032947535521353e-07, -8.568720264695455e-07, 3.4702513081376785e-06,
                            -1.3273163656039436e-05, 4.781565107550054e-05, -0.00016176081582589674,
                            0.0005122859561685758, -0.0015135724506312532, 0.004156422944312888,
                            -0.010564084894626197, 0.024726449030626516, -0.05294598120809499,
                            0.1026436586898471, -0.17641651835783406, 0.25258718644363365);
  else
    value = tc_clenshaw(T(32) / x - T(2), 7.517296310842105e-18, 4.414348323071708e-18,
                        -4.6503053684893586e-17, -3.209525921993424e-17, 2.96262899764595e-16,
                        3.3082023109209285e-16, -1.8803547755107825e-15, -3.8144030724370075e-15,
                        1.0420276984128802e-14, 4.272440016711951e-14, -2.1015418427726643e-14,
                        -4.0835511110921974e-13, -7.198551776245908e-13, 2.0356285441470896e-12,
                        1.4125807436613782e-11, 3.2526035830154884e-11, -1.8974958123505413e-11,
                        -5.589743462196584e-10, -3.835380385964237e-09, -2.6314688468895196e-08,
                        -2.512236237870209e-07, -3.882564808877691e-06, -0.00011058893876262371,
                        -0.009761097491361469, 0.7785762350182801) /
            tc_sqrt(x);
  return signed_x < T(0) ? -value : value;
}
template <class T> TC_FN T tc_i1_of(T x) { return tc_exp(tc_abs(x)) * tc_scaled_i1_of(x); }

/// K0(x), times exp(x) if `scaled`. Infinite at 0, NaN below.
template <class T> TC_FN T tc_k0_of(T x, bool scaled) {
  if (x == T(0))
    return tc_infinity<T>();
  if (x < T(0))
    return tc_not_a_number<T>();
  if (x <= T(2)) {
    const T sum = tc_clenshaw(x * x - T(2), 1.374465435613523e-16, 4.25981614279661e-14,
                              1.0349695257633842e-11, 1.904516377220209e-09, 2.5347910790261494e-07,
                              2.286212103119452e-05, 0.001264615411446926, 0.0359799365153615,
                              0.3442898999246285, -0.5353273932339028);
    const T value = sum - tc_log(T(0.5) * x) * tc_i0_of(x);
    return scaled ? value * tc_exp(x) : value;
  }
  const T sum = tc_clenshaw(
      T(8) / x - T(2), 5.300433772686263e-18, -1.6475804301524212e-17, 5.2103915050390274e-17,
      -1.678231096805412e-16, 5.512055978524319e-16, -1.848593377343779e-15, 6.3400764774050706e-15,
      -2.2275133269916698e-14, 8.032890775363575e-14, -2.9800969231727303e-13,
      1.140340588208475e-12, -4.514597883373944e-12, 1.8559491149547177e-11, -7.957489244477107e-11,
      3.577397281400301e-10, -1.69753450938906e-09, 8.574034017414225e-09, -4.660489897687948e-08,
      2.766813639445015e-07, -1.8317555227191195e-06, 1.39498137188765e-05, -0.00012849549581627802,
      0.0015698838857300533, -0.0314481013119645, 2.4403030820659555);
  return (scaled ? sum : tc_exp(-x) * sum) / tc_sqrt(x);
}
template <class T> TC_FN T tc_k1_of(T x, bool scaled) {
  if (x == T(0))
    return tc_infinity<T>();
  if (x < T(0))
    return tc_not_a_number<T>();
  if (x <= T(2)) {
    const T sum =
        tc_clenshaw(x * x - T(2), -7.023863479386288e-18, -2.427449850519366e-15,
                    -6.666901694199329e-13, -1.4114883926335278e-10, -2.213387630734726e-08,
                    -2.4334061415659684e-06, -0.0001730288957513052, -0.006975723859639864,
                    -0.12261118082265715, -0.3531559607765449, 1.5253002273389478);
    const T value = tc_log(T(0.5) * x) * tc_i1_of(x) + sum / x;
    return scaled ? value * tc_exp(x) : value;
  }
  const T sum = tc_clenshaw(T(8) / x - T(2), -5.756744483665017e-18, 1.7940508731475592e-17,
                            -5.689462558442859e-17, 1.838093544366639e-16, -6.057047248373319e-16,
                            2.038703165624334e-15, -7.019837090418314e-15, 2.4771544244813043e-14,
                            -8.976705182324994e-14, 3.3484196660784293e-13, -1.2891739609510289e-12,
                            5.13963967348173e-12, -2.1299678384275683e-11, 9.218315187605006e-11,
                            -4.1903547593418965e-10, 2.015049755197033e-09, -1.0345762465678097e-08,
                            5.7410841254500495e-08, -3.5019606030878126e-07, 2.406484947837217e-06,
                            -1.936197974166083e-05, 0.00019521551847135162, -0.002857816859622779,
                            0.10392373657681724, 2.7206261904844427);
  return (scaled ? sum : tc_exp(-x) * sum) / tc_sqrt(x);
}

/// Ai. NaN at both infinities, 0 from 103.892 on.
template <class T> TC_FN T tc_airy_ai_of(T x) {
  constexpr double kOneOverRootPi = 0.564189583547756286948;
  if (tc_abs(x) == tc_infinity<T>())
    return tc_not_a_number<T>();
  if (x > T(103.892))
    return T(0);
  if (x < T(-2.09)) {
    const T zeta = T(-2) * x * tc_sqrt(-x) / T(3);
    const T z = T(1) / zeta, square = z * z, angle = zeta + T(0.25 * 3.14159265358979323846);
    const T f = tc_horner(square, -0.1316963234183318, -0.6264565444319123, -0.6931580360369335,
                          -0.2797799815451191, -0.04919001326095003, -0.004062659235948854,
                          -0.0001592764962392621, -2.776491081552329e-06, -1.6778769848911465e-08) /
                tc_horner(square, 13.356042070655324, 32.682503279522464, 26.736704094149957,
                          9.187074029072596, 1.4752914677166642, 0.11568717379518804,
                          0.004402916416152112, 7.547203482874142e-05, 4.5185009297058035e-07);
    const T g =
        tc_horner(square, 0.01973399320916857, 0.39110302961568827, 1.0657989759959559,
                  0.9391692298166502, 0.35146565610554764, 0.06338889196289255,
                  0.005858041130483885, 0.000282851600836737, 6.98793669997261e-06,
                  8.117892395543892e-08, 3.415517847659236e-10) /
        tc_horner(square, 9.30892908077442, 19.835292871831214, 15.564662893286462,
                  5.476860694229755, 0.9542936116189619, 0.08645808263523921, 0.004126565238242226,
                  0.00010125908511650914, 1.1716673321441352e-06, 4.9183457006293e-09);
    return T(kOneOverRootPi) / tc_sqrt(tc_sqrt(-x)) *
           (tc_sin(angle) * (T(1) + square * f) - tc_cos(angle) * (z * g));
  }
  if (x >= T(2.09)) {
    const T zeta = T(2) * x * tc_sqrt(x) / T(3), z = T(1) / zeta;
    const T p =
        tc_horner(z, 0.346538101525629, 12.007595273964581, 76.27960536152345, 168.08922493463058,
                  159.75639135016442, 70.53609068404442, 14.026469116338967, 1.0);
    const T q =
        tc_horner(z, 0.5675945326387702, 14.75625625848472, 84.51389701414746, 177.31808814540045,
                  164.2346928715297, 71.47784008255756, 14.095913560783403, 1.0);
    return T(kOneOverRootPi) * (p / q) / (T(2) * tc_sqrt(tc_sqrt(x)) * tc_exp(zeta));
  }
  // The two series in x^3.
  const T cube = x * x * x, enough = sizeof(T) == 4 ? T(1.1920929e-7) : T(2.220446049250313e-16);
  T f = T(1), g = x, f_term = T(1), g_term = x, k = T(1), share = T(1);
  while (share > enough) {
    f_term *= cube / ((k + T(1)) * (k + T(2)));
    g_term *= cube / ((k + T(2)) * (k + T(3)));
    k += T(3);
    f += f_term;
    g += g_term;
    share = tc_abs(f_term / f);
  }
  return T(0.355028053887817239260) * f - T(0.258819403792806798405) * g;
}

#define TC_SPECIAL_1(name, expression)                                                             \
  TC_FN float tc_##name(float x) { return expression; }                                            \
  TC_FN double tc_##name(double x) { return expression; }
TC_SPECIAL_1(bessel_j0, tc_j0_of(x))
TC_SPECIAL_1(bessel_j1, tc_j1_of(x))
TC_SPECIAL_1(bessel_y0, tc_y0_of(x))
TC_SPECIAL_1(bessel_y1, tc_y1_of(x))
TC_SPECIAL_1(modified_bessel_i0, tc_i0_of(x))
TC_SPECIAL_1(modified_bessel_i1, tc_i1_of(x))
TC_SPECIAL_1(modified_bessel_k0, tc_k0_of(x, false))
TC_SPECIAL_1(modified_bessel_k1, tc_k1_of(x, false))
TC_SPECIAL_1(scaled_modified_bessel_i0, tc_scaled_i0_of(x))
TC_SPECIAL_1(scaled_modified_bessel_i1, tc_scaled_i1_of(x))
TC_SPECIAL_1(scaled_modified_bessel_k0, tc_k0_of(x, true))
TC_SPECIAL_1(scaled_modified_bessel_k1, tc_k1_of(x, true))
TC_SPECIAL_1(airy_ai, tc_airy_ai_of(x))
