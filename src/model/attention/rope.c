/* The frequencies of rotary position embedding: a small table for an op, computed for each call, which
 * takes less time than one row of one head. */
#include "model/attention/rope.h"
#include "base/exponential.h"

static const double PI = 3.14159265358979323846;

static double llama3(const RopeConfig *config, double f)
{
    double wave = 2 * PI / f, L = config->original;
    if (wave < L / config->high) return f;
    if (wave > L / config->low) return f / config->factor;
    double s = (L / wave - config->low) / (config->high - config->low);
    return (1 - s) * f / config->factor + s * f;
}

/* t(m) */
static double temperature(const RopeConfig *config, double m)
{
    return config->factor > 1 ? 0.1 * m * natural_log(config->factor) + 1 : 1;
}

/* ---- YaRN: the pairs between which frequencies change from their own to interpolated ones ---- */
typedef struct { double first, last; } Ramp;

static double rounded_down(double x) { double n = (double)(int64_t)x; return n > x ? n - 1 : n; }

static double pair_turning(const RopeConfig *config, int64_t channels, double times)
{
    return (double)channels * natural_log(config->original / (times * 2 * PI))
         / (2 * natural_log(config->base));
}

static Ramp yarn_ramp(const RopeConfig *config, int64_t channels)
{
    Ramp ramp = { pair_turning(config, channels, config->fast),
                  pair_turning(config, channels, config->slow) };
    if (config->rounded) ramp = (Ramp){ rounded_down(ramp.first), -rounded_down(-ramp.last) };
    if (ramp.first < 0) ramp.first = 0;
    if (ramp.last > (double)(channels - 1)) ramp.last = (double)(channels - 1);
    if (ramp.first == ramp.last) ramp.last += 0.001;
    return ramp;
}

static double yarn(const RopeConfig *config, Ramp ramp, double pair, double f)
{
    double r = (pair - ramp.first) / (ramp.last - ramp.first), m = 1 - (r < 0 ? 0 : r > 1 ? 1 : r);
    return f / config->factor * (1 - m) + f * m;
}

/* ---- all of them ---- */

RopeRule rope_rule(const RopeConfig *config, int64_t head_dim, bool local)
{
    int64_t R = config->channels > 0 ? config->channels : head_dim;
    bool own = local && config->local_base > 0;
    RopeScaling scaling = own ? ROPE_UNSCALED : config->scaling;
    double base = own ? config->local_base : config->base;
    Ramp ramp = { 0 };
    RopeRule rule = { .pairs = R / 2, .interleaved = config->interleaved, .scale = 1 };
    CHECK(R % 2 == 0 && R <= head_dim && rule.pairs <= ROPE_PAIRS_MOST,
          "RoPE of %lld of %lld channels; it turns pairs, at most %d", (long long)R, (long long)head_dim,
          ROPE_PAIRS_MOST);
    if (scaling == ROPE_YARN) {
        ramp = yarn_ramp(config, R);
        rule.scale = temperature(config, config->mscale) / temperature(config, config->mscale_all);
    }
    for (int64_t i = 0; i < rule.pairs; i++) {
        double f = 1 / natural_power(base, 2.0 * (double)i / (double)R);
        if (!own && config->interpolation > 0) f /= config->interpolation;
        rule.frequency[i] = scaling == ROPE_LLAMA3 ? llama3(config, f)
                          : scaling == ROPE_YARN   ? yarn(config, ramp, (double)i, f) : f;
    }
    return rule;
}

double rope_score_scale(const RopeConfig *config)
{
    double t = config->scaling == ROPE_YARN ? temperature(config, config->mscale_all) : 1;
    return t * t;
}
