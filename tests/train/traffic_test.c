/* What each rank sends in one step, by comm and verb, against tests/golden/traffic: to the byte and to the
 * call. The goldens come from the formulas of tests/oracles/traffic.py, which reads the rows of Layout here
 * and in layouts.h; a test runs it again. A dry trainer counts the same. */
#include "train/measure.h"
#include "train/step.h"
#include "train/layouts.h"

enum { TEXT_MAX = 1 << 14 };
typedef struct { char text[TEXT_MAX]; size_t used; } Words;
typedef struct { TrainConfig config; const char *model; Words by_rank[RANKS_MAX]; bool trace; } Counted;

/* What layouts.h has no need of: shards with padding, parts that do not divide, ZeRO across stages and tp. */
static const Layout more[] = {
    { "dp3 zero1",               3, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B },
    { "dp3 zero3",               3, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B },
    { "pp2 dp3 zero1",           6, 1, 1, 2, 1, 1, false, SCHEDULE_1F1B },
    { "pp3 dp2 zero2",           6, 1, 1, 3, 1, 2, false, SCHEDULE_1F1B },
    { "tp2 seq dp3",             6, 2, 1, 1, 1, 0, true,  SCHEDULE_1F1B },
    { "tp2 seq pp2 cp2 zero2",   8, 2, 2, 2, 1, 2, true,  SCHEDULE_ZB_H1 },
    { "dp6 zero2 hybrid3",       6, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B, .hybrid = 3 },
};
enum { MORE = sizeof more / sizeof *more };

static void words_add(Words *words, const char *line)
{
    words->used += (size_t)snprintf(words->text + words->used, TEXT_MAX - words->used, "%s\n", line);
    assert_true(words->used < TEXT_MAX);
}

static void on_line(void *context, const char *text) { words_add(context, text); }

enum { COMMS = 11, PP = 8 };
typedef struct { Comm *of[COMMS]; } Comms;

/* Shard and replica groups are apart from dp+cp under hybrid sharding alone. */
static Comms comms_of(const Trainer *t)
{
    const DataComms *data = &t->comms.data[PARAMS_DENSE];
    bool hybrid = data->shard != t->comms.dp_cp && data->replica != t->comms.dp_cp;
    return (Comms){ { t->comms.tp, t->comms.cp, t->comms.ulysses, t->comms.ring, t->comms.dp_cp, hybrid ? data->shard : NULL,
                      hybrid ? data->replica : NULL, t->comms.kv, NULL /* channels */, t->comms.tied, t->comms.world } };
}

/* A line for each verb of the comms from `first` to `end` together: one, or the stages' with all channels of the pipeline. */
static void lines_add(Words *words, const Counted *counted, int rank, const char *name, Comm *const *first, Comm *const *end)
{
    for (SentVerb verb = 0; verb < SENT_VERBS; verb++) {
        Sent sent = { 0 };
        char line[160];
        for (Comm *const *comm = first; comm < end; comm++) {
            if (!*comm) continue;
            sent.calls += comm_sent(*comm, verb).calls;
            sent.bytes += comm_sent(*comm, verb).bytes;
        }
        if (sent.calls == 0 && sent.bytes == 0) continue;
        snprintf(line, sizeof line, "%s %d %s %s %lld %lld", counted->model, rank, name, sent_verb_name(verb),
                 (long long)sent.calls, (long long)sent.bytes);
        words_add(words, line);
    }
}

static void step_counted(Trainer *t, Counted *counted)
{
    Words *words = &counted->by_rank[t->mesh.rank];
    words->used = 0;
    words->text[0] = 0;
    for (int i = 0; i < t->comms.count + 1; i++) {
        Comm *comm = i < t->comms.count ? t->comms.all[i] : t->comms.world;
        comm_sent_reset(comm);
        if (counted->trace) comm_trace(comm, on_line, words);
    }
    ArenaSizes sizes;
    if (comm_dry(t->comms.world)) trainer_count(t, &sizes);         /* a dry trainer runs a part and extrapolates */
    else trainer_step(t);
    if (counted->trace) return;
    Comms comms = comms_of(t);
    Comm *pp[1 + CHANNELS_MAX] = { t->comms.pp };
    for (int i = 0; i < t->comms.channels.count; i++) pp[1 + i] = t->comms.channels.channel[i].comm;
    for (int i = 0; i < COMMS; i++) {
        Comm *const *comm = &comms.of[i];
        if (i == PP) lines_add(words, counted, t->mesh.rank, "pp", pp, pp + 1 + t->comms.channels.count);
        else if (*comm) lines_add(words, counted, t->mesh.rank, comm_name(*comm), comm, comm + 1);
    }
}

static Status count_rank(Transport *transport, void *context)
{
    Counted *counted = context;
    Trainer t;
    ArenaSizes sizes;
    bool dry = transport->kind == TRANSPORT_DRY;
    if (!dry) TRY(trainer_measure(&sizes, &counted->config, transport->rank, transport->size));
    TRY(trainer_open(&t, &counted->config, transport, dry ? NULL : &sizes));
    if (!dry) trainer_init(&t);
    step_counted(&t, counted);
    trainer_close(&t);
    return OK;
}

static void count_threads(Counted *counted, int ranks)
{
    if (transport_threads_run(ranks, count_rank, counted) != OK) fail_msg("%s", fail_text());
}

static void count_dry(Counted *counted, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        Transport *transport = transport_dry_open(r, ranks);
        if (count_rank(transport, counted) != OK) fail_msg("%s", fail_text());
        transport->close(transport);
    }
}

/* tests/golden/traffic/<name>.txt, spaces written as _ and commas left out; the caller frees it */
static char *golden(const char *name)
{
    char path[512];
    size_t at = (size_t)snprintf(path, sizeof path, TESTS_DIR "/golden/traffic/");
    for (; *name; name++)
        if (*name != ',') path[at++] = *name == ' ' ? '_' : *name;
    strcpy(path + at, ".txt");
    FileMap map;
    if (file_map(&map, path) != OK) fail_msg("%s; tests/oracles/traffic.py writes it", fail_text());
    char *text = malloc(map.size + 1);
    memcpy(text, map.data, map.size);
    text[map.size] = 0;
    file_unmap(&map);
    return text;
}

/* Takes the lines of `words` off the front of `want`. */
static const char *expect(const char *want, const Words *words, const char *name, const char *how)
{
    const char *got = words->text;
    while (*got) {
        size_t n = strcspn(got, "\n"), m = strcspn(want, "\n");
        if (n != m || strncmp(got, want, n) != 0)
            fail_msg("%s, %s: sent \"%.*s\", the formulas say \"%.*s\"", name, how,
                     (int)n, got, (int)m, want);
        got  += n + 1;
        want += m + 1;
    }
    return want;
}

/* Small, and odd: shards have padding, parts do not divide. */
static TrainConfig config_of(ModelName model, const Layout *layout, int64_t global)
{
    TrainConfig config = tiny_config(model, "ref", scratch_path("corpus"));
    config.model.hidden   = 10;
    config.model.ffn      = 12;
    config.model.head_dim = 4;
    config.micro  = 2;
    config.global = global;
    config.head_chunk = 0;                   /* one chunk: the messages of the loss are counted by step */
    config_set_layout(&config, layout);
    return config;
}

typedef void Counting(Counted *counted, int ranks);

static void compare(const Layout *layout, Counting *counting, const char *how)
{
    static const char *const name[] = { "gpt", "llama" };
    char *text = golden(layout->name);
    const char *want = text;
    for (ModelName model = MODEL_GPT; model <= MODEL_LLAMA; model++) {
        Counted *counted = calloc(1, sizeof *counted);
        counted->config = config_of(model, layout, 24);
        counted->model  = name[model];
        counting(counted, layout->ranks);
        for (int r = 0; r < layout->ranks; r++) want = expect(want, &counted->by_rank[r], layout->name, how);
        free(counted);
    }
    if (*want) fail_msg("%s, %s: no rank sent \"%.*s\"", layout->name, how, (int)strcspn(want, "\n"), want);
    free(text);
}

static void compare_all(Counting *counting, const char *how)
{
    for (int i = 0; i < LAYOUTS; i++) compare(&layouts[i], counting, how);
    for (int i = 0; i < MORE; i++)    compare(&more[i], counting, how);
    printf("%d layouts, both models, %s: 0 bytes and 0 calls off\n", LAYOUTS + MORE, how);
}

static void test_threads(void **state) { (void)state; compare_all(count_threads, "threads"); }
static void test_dry    (void **state) { (void)state; compare_all(count_dry, "dry"); }

/* The order too: rank 0 of a transformer under tp 2 with sequence parallelism and two stages. */
static void test_trace(void **state)
{
    (void)state;
    static const Layout traced = { "trace", 4, 2, 1, 2, 1, 0, true, SCHEDULE_1F1B };
    Counted *counted = calloc(1, sizeof *counted);
    char *want = golden(traced.name);
    counted->trace  = true;
    counted->config = config_of(MODEL_GPT, &traced, 4);
    count_threads(counted, traced.ranks);
    assert_string_equal(expect(want, &counted->by_rank[0], traced.name, "threads"), "");
    count_dry(counted, traced.ranks);
    assert_string_equal(expect(want, &counted->by_rank[0], traced.name, "dry"), "");
    free(want);
    free(counted);
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dry), cmocka_unit_test(test_threads), cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
