/* Generation with a cache against the whole text at once, and under every layout against one rank, in double. */
#include "generate/generation_task.h"

/* ---- one rank ---- */

static const Layout one = { "one rank", 1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B };

static double logits_differ(const double *a, const double *b)
{
    double most = 0;
    for (int v = 0; v < WORDS; v++)
        if (!(fabs(a[v] - b[v]) <= most)) most = fabs(a[v] - b[v]);
    return most;
}

static void test_cache(void **state)
{
    (void)state;
    static const int32_t ids[] = { 5, 40, 17 };
    for (int model = MODEL_GPT; model <= MODEL_LLAMA; model++) {
        Task first = { .model = model, .device = "ref", .layout = one, .rows = 1, .micros = 1, .end = -1, .window = model == MODEL_LLAMA ? 4 : 0,
                       .prompt = { { ids, 3, CAPACITY - 3 } }, .prompts = 1 };
        run(&first);
        const Text *text = &first.text[0];
        assert_int_equal(text->made, CAPACITY - 3);
        /* prompts with more of the same text: fewer ids come from a cache */
        for (int64_t more = 1; more <= WIDEST - 3; more++) {
            int32_t longer[CAPACITY];
            Task again = first;
            memcpy(longer, ids, sizeof ids);
            memcpy(longer + 3, text->id, (size_t)more * sizeof *longer);
            again.prompt[0] = (Prompt){ longer, 3 + more, 1 };
            run(&again);
            assert_int_equal(again.text[0].id[0], text->id[more]);
            double off = logits_differ(again.text[0].logits[0], text->logits[more]);
            if (!(off <= 1e-12)) fail_msg("model %d: logits after %lld ids differ by %g with the cache", model, (long long)(3 + more), off);
        }
    }
}

/* ---- the same model without a cache ---- */

typedef struct { const Task *task; const int32_t *ids; double loss; } Whole;

static void fill_ids(void *context, Batch *batch, int64_t step, int micro)
{
    const Whole *whole = context;
    Windows w = { .ids = whole->ids, .count = CAPACITY, .config = { .sequence = CAPACITY - 1, .micro = 1, .global = 1, .dp = 1, .cp = 1 } };
    windows_fill(&w, batch, step, micro);
}

static Status evaluate(Transport *transport, void *context)
{
    Whole *whole = context;
    Trainer t;
    TrainConfig config = tiny_config(whole->task->model, "ref", NULL);
    config.training = config.reset_attention = false;
    config.model.sequence = CAPACITY - 1;
    model_set(&config.model, whole->task);
    config.micro = config.global = 1;
    TRY(trainer_start(&t, &config, transport));
    trainer_init(&t);
    whole->loss = trainer_evaluate(&t, 1, fill_ids, whole);
    trainer_close(&t);
    return OK;
}

static double loss_of(const double *logits, int32_t id)
{
    double sum = 0;
    for (int v = 0; v < WORDS; v++) sum += exp(logits[v]);
    return log(sum) - logits[id];
}

/* The loss of evaluation, in one forward of the whole text, is that of the logits of generation. */
static void test_evaluation(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        int32_t ids[CAPACITY] = { 7 };
        Task task = { .model = i % 2 ? MODEL_LLAMA : MODEL_GPT, .device = "ref", .layout = one, .rows = 1, .micros = 1, .end = -1, .window = i < 2 ? 0 : 4,
                      .sampling = { .temperature = 1, .seed = 8 }, .prompt = { { ids, 1, CAPACITY - 1 } }, .prompts = 1 };
        run(&task);
        double sum = 0;
        for (int n = 0; n < CAPACITY - 1; n++) sum += loss_of(task.text[0].logits[n], task.text[0].id[n]);
        memcpy(ids + 1, task.text[0].id, (CAPACITY - 1) * sizeof *ids);
        Whole whole = { &task, ids, 0 };
        if (transport_threads_run(1, evaluate, &whole) != OK) fail_msg("%s", fail_text());
        if (!(fabs(whole.loss - sum / (CAPACITY - 1)) <= 1e-12)) fail_msg("case %d: loss %.17g, of the logits %.17g", i, whole.loss, sum / (CAPACITY - 1));
    }
}

/* ---- layouts ---- */

static const Layout many[] = {
    /* name                       ranks tp cp pp chunks zero sequence schedule */
    { "one rank",                     1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "two chunks",                   1, 1, 1, 1, 2, 0, false, SCHEDULE_INTERLEAVED },
    { "tp2",                          2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 sequence",                 2, 2, 1, 1, 1, 0, true,  SCHEDULE_1F1B },
    { "pp2",                          2, 1, 1, 2, 1, 0, false, SCHEDULE_1F1B },
    { "pp4",                          4, 1, 1, 4, 1, 0, false, SCHEDULE_1F1B },
    { "pp2 interleaved",              2, 1, 1, 2, 2, 0, false, SCHEDULE_INTERLEAVED },
    { "dp2",                          2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "dp3",                          3, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "dp4 zero3",                    4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B },
    { "tp2 pp2",                      4, 2, 1, 2, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 pp2 interleaved",          4, 2, 1, 2, 2, 0, true,  SCHEDULE_INTERLEAVED },
    { "tp2 sequence dp2 zero3",       4, 2, 1, 1, 1, 3, true,  SCHEDULE_1F1B },
    { "pp2 dp2 zero3",                4, 1, 1, 2, 1, 3, false, SCHEDULE_1F1B },
    { "tp4, llama's heads in copies", 4, 4, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "dp4 zero3 hybrid2",            4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B, .hybrid = 2 },
    { "pp2 dp2 in order tp-pp-dp",    4, 1, 1, 2, 1, 0, false, SCHEDULE_1F1B, .order = MESH_TP_PP_DP },
    { "tp2 sequence pp2 dp2",         8, 2, 1, 2, 1, 0, true,  SCHEDULE_1F1B },
    { "dp4 zero3 hybrid 2",           4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B, 2, MESH_TP_DP_PP },
    { "pp2 dp2 before dp",            4, 1, 1, 2, 1, 0, false, SCHEDULE_1F1B, 0, MESH_TP_PP_DP },
    { "tp4",                          4, 4, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "cp2",                          2, 1, 2, 1, 1, 0, false, SCHEDULE_1F1B },
    { "cp4",                          4, 1, 4, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 sequence cp2 dp2 zero3",   8, 2, 2, 1, 1, 3, true,  SCHEDULE_1F1B },
    { "cp2 pp2 dp2",                  8, 1, 2, 2, 1, 0, false, SCHEDULE_1F1B },
};
enum { MANY = sizeof many / sizeof *many };

static int32_t words[PROMPTS][WIDEST];

/* Lengths 4, 9, 1, ...: the widest is not first, and fewer new tokens end a row before the others. */
static void prompts_make(Task *task)
{
    static const int64_t count[PROMPTS] = { 4, 9, 1, 6, 2, 3, 7 }, most[PROMPTS] = { 5, 5, 5, 1, 5, 3, 5 };
    task->prompts = PROMPTS;
    for (int p = 0; p < PROMPTS; p++) {
        for (int64_t i = 0; i < count[p]; i++) words[p][i] = (int32_t)(random_bits(random_key(4, "words"), (uint64_t)(p * WIDEST + i)) % WORDS);
        task->prompt[p] = (Prompt){ words[p], count[p], most[p] };
    }
}

/* The largest distance of logits; the ids are the same, or a test fails. */
static double texts_compare(const Task *task, const Task *truth)
{
    double most = 0;
    for (int64_t p = 0; p < truth->prompts; p++) {
        const Text *a = &task->text[p], *b = &truth->text[p];
        if (a->made != b->made || memcmp(a->id, b->id, sizeof a->id) != 0)
            fail_msg("%s, rows %lld x %d: prompt %lld is continued by other ids", task->layout.name, (long long)task->rows, task->micros, (long long)p);
        for (int64_t i = 0; i < b->made; i++) most = fmax(most, logits_differ(a->logits[i], b->logits[i]));
    }
    return most;
}

static void layouts_compare(ModelName model, Sampling sampling)
{
    static const struct { int64_t rows; int micros; } batch[] = { { 1, 1 }, { 3, 1 }, { 2, 2 }, { 1, 4 } };
    Task truth = { .model = model, .device = "ref", .layout = one, .rows = 1, .micros = 1, .end = -1, .sampling = sampling };
    prompts_make(&truth);
    run(&truth);
    for (int l = 0; l < MANY; l++)
        for (int b = 0; b < turns(4, 2); b++) {
            Task task = truth;
            task.layout = many[l];
            task.rows   = batch[b].rows;
            task.micros = batch[b].micros;
            run(&task);
            double off = texts_compare(&task, &truth);
            if (!(off <= 1e-12)) fail_msg("%s: logits differ by %g", many[l].name, off);
            /* a sequence alone and among others: the same bits */
            if (l == 0 && off != 0) fail_msg("rows %lld: logits differ by %g", (long long)task.rows, off);
        }
}

static void test_greedy_gpt  (void **state) { (void)state; layouts_compare(MODEL_GPT,   (Sampling){ .temperature = 0 }); }
static void test_greedy_llama(void **state) { (void)state; layouts_compare(MODEL_LLAMA, (Sampling){ .temperature = 0 }); }
static void test_top_p_gpt   (void **state) { (void)state; layouts_compare(MODEL_GPT,   (Sampling){ .temperature = 1, .top_p = 0.8, .seed = 5 }); }
static void test_top_p_llama (void **state) { (void)state; layouts_compare(MODEL_LLAMA, (Sampling){ .temperature = 0.7, .top_p = 0.9, .top_k = 20, .seed = 6 }); }

/* What several threads draw is what one does. */
static void test_threads(void **state)
{
    (void)state;
    Task alone = { .model = MODEL_GPT, .device = "cpu", .layout = many[2], .rows = 4, .micros = 1, .end = -1, .sampling = { .temperature = 1, .top_p = 0.9 } };
    prompts_make(&alone);
    run(&alone);
    Task task = alone;
    for (task.unseen = true, task.threads = 2; task.threads <= 12; task.threads += 5) {
        run(&task);
        for (int p = 0; p < PROMPTS; p++) assert_memory_equal(task.text[p].id, alone.text[p].id, sizeof alone.text[p].id);
    }
}

/* Each way in which keys of other ranks are reached, with and without sliding windows, in double and fp32. */
static void test_context(void **state)
{
    (void)state;
    static const struct { const char *name; int cp, ulysses; bool gather; } way[] = {
        { "ring 2", 2, 1, false }, { "ulysses 2", 2, 2, false }, { "gather 2", 2, 1, true }, { "ring 4", 4, 1, false },
        { "ring 2 x ulysses 2", 4, 2, false }, { "gather 2 x ulysses 2", 4, 2, true } };
    for (int i = 0; i < 4; i++) {
        Task truth = { .model = i % 2 ? MODEL_LLAMA : MODEL_GPT, .device = "ref", .layout = one, .rows = 1, .micros = 1, .end = -1, .window = i < 2 ? 0 : 3 };
        prompts_make(&truth);
        run(&truth);
        for (size_t w = 0; w < sizeof way / sizeof *way; w++) {
            Task task = truth;
            task.layout = (Layout){ way[w].name, way[w].cp, 1, way[w].cp, 1, 1, 0, false, SCHEDULE_1F1B };
            task.ulysses = way[w].ulysses;
            task.gather  = way[w].gather;
            task.rows    = 2;
            run(&task);
            double off = texts_compare(&task, &truth);
            if (!(off <= 1e-12)) fail_msg("%s: logits differ by %g", way[w].name, off);
            task.device = "cpu";
            for (int p = 0; p < PROMPTS; p++) task.prompt[p].most = 1;
            run(&task);
            for (int p = 0; p < PROMPTS; p++)
                if (!(logits_differ(task.text[p].logits[0], truth.text[p].logits[0]) <= 1e-5)) fail_msg("%s in fp32", way[w].name);
        }
    }
}

/* Keys that the documents of an earlier batch hid are seen by a prompt. */
static void test_after_documents(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        Task truth = { .model = i % 2 ? MODEL_LLAMA : MODEL_GPT, .device = "ref", .layout = one, .rows = 1, .micros = 1, .end = -1 };
        prompts_make(&truth);
        run(&truth);
        Task task = truth;
        task.layout    = (Layout){ i < 4 ? "ring 2" : "ring 2 x ulysses 2", 0, 1, i < 4 ? 2 : 4, 1, 1, 0, false, SCHEDULE_1F1B };
        task.layout.ranks = task.layout.cp;
        task.ulysses   = i < 4 ? 1 : 2;
        task.gather    = i >= 2 && i < 4;
        task.documents = true;
        task.rows      = 2;
        run(&task);
        double off = texts_compare(&task, &truth);
        if (!(off <= 1e-12)) fail_msg("%s%s: logits differ by %g", task.layout.name, task.gather ? " gathered" : "", off);
    }
}

/* Layers of experts: tokens of all data ranks, padding included, are dispatched together. */
static void test_experts(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        Task truth = { .model = i ? MODEL_LLAMA : MODEL_GPT, .device = "ref", .layout = one, .rows = 1, .micros = 1, .end = -1, .experts = true,
                       .sampling = { .temperature = i, .top_p = 0.9, .seed = 2 } };
        prompts_make(&truth);
        run(&truth);
        for (int l = 0; l < MOE_LAYOUTS; l++) {
            Task task = truth;
            task.layout = moe_layouts[l].layout, task.etp = moe_layouts[l].etp, task.ep = moe_layouts[l].ep;
            task.rows   = 1 + l % 3;
            task.micros = 1 + l % 2;
            run(&task);
            double off = texts_compare(&task, &truth);
            if (!(off <= 1e-12)) fail_msg("%s: logits differ by %g", task.layout.name, off);
        }
    }
}

/* The log-probability of an answer's next token after so many of it, from a prompt that has these: without beams and their pages. */
static double next_logprob(const Task *search, int64_t prompt, int64_t made)
{
    int32_t ids[CAPACITY];
    const Prompt *p = &search->prompt[prompt];
    Task task = { .model = search->model, .device = search->device, .layout = one, .rows = 2, .micros = 1, .end = -1, .prompts = 1 };
    memcpy(ids, p->id, (size_t)p->count * sizeof *ids);
    memcpy(ids + p->count, search->text[prompt].id, (size_t)made * sizeof *ids);
    task.prompt[0] = (Prompt){ ids, p->count + made, 1 };
    run(&task);
    return -loss_of(task.text[0].logits[0], made < search->text[prompt].made ? search->text[prompt].id[made] : search->end);
}

/* Beams that fork and end, on pages of 3 and 2 positions: the score of an answer is that of its tokens, and layouts have the same. */
static void test_beams(void **state)
{
    (void)state;
    for (int model = MODEL_GPT; model <= MODEL_LLAMA; model++) {
        Task task = { .model = model, .device = "ref", .layout = one, .rows = 7, .micros = 1, .end = 11, .page = 3, .beams = 3 };
        prompts_make(&task);
        run(&task);
        for (int p = 0; p < PROMPTS; p += 2) {
            const Text *text = &task.text[p];
            int64_t tokens = text->made + (text->made < task.prompt[p].most);
            double sum = 0;
            for (int64_t n = 0; n < tokens; n++) sum += next_logprob(&task, p, n);
            double off = fabs(task.score[p] - sum / sqrt((double)tokens));
            if (!(off <= 1e-6)) fail_msg("model %d, prompt %d: score %.9g is off by %g", model, p, task.score[p], off);
        }
        for (int l = 0; l < MANY; l += 4) {
            Task same = task;
            same.layout = many[l];
            same.micros = 1 + l % 2;
            same.page   = 2;
            run(&same);
            for (int p = 0; p < PROMPTS; p++) {
                if (!(fabs(same.score[p] - task.score[p]) <= 1e-6)) fail_msg("%s: score %.9g, not %.9g", many[l].name, same.score[p], task.score[p]);
                assert_int_equal(same.text[p].made, task.text[p].made);
                assert_memory_equal(same.text[p].id, task.text[p].id, sizeof same.text[p].id);
            }
        }
    }
}

/* The id that ends a text is not emitted, and ends its row alone. */
static void test_end(void **state)
{
    (void)state;
    Task free_run = { .model = MODEL_LLAMA, .device = "ref", .layout = one, .rows = 2, .micros = 1, .end = -1, .sampling = { .temperature = 1, .seed = 9 } };
    prompts_make(&free_run);
    run(&free_run);
    for (int l = 0; l < MANY; l += 5) {
        Task task = free_run;
        task.layout = many[l];
        task.end = free_run.text[0].id[2];
        run(&task);
        assert_int_equal(task.text[0].made, 2);
        for (int p = 0; p < PROMPTS; p++) {
            int64_t n = 0;
            while (n < free_run.text[p].made && free_run.text[p].id[n] != task.end) n++;
            assert_int_equal(task.text[p].made, n);
            assert_memory_equal(task.text[p].id, free_run.text[p].id, (size_t)n * sizeof(int32_t));
        }
    }
}

/* A prompt alone and among others, on one rank: the same bits in every type. */
static void test_rows(void **state)
{
    (void)state;
    static const MixedPrecision type[] = { MIXED_NONE, MIXED_BF16, MIXED_F16 };
    for (int i = 0; i < 3; i++) {
        Task alone = { .model = MODEL_GPT, .device = "cpu", .mixed = type[i], .layout = one, .rows = 1, .micros = 1, .end = -1 };
        prompts_make(&alone);
        Task among = alone;
        among.rows = 4;
        run(&alone);
        run(&among);
        double off = texts_compare(&among, &alone);
        if (off != 0) fail_msg("type %d: logits differ by %g", i, off);
    }
}

/* Weights in 8 bits: logits `near` the others (half a code is 1/254 of the largest of 64 weights), and the same bits alone. */
static void int8_case(Task *truth, Task task, double near)
{
    task.int8 = true;
    Task among = task;
    among.rows = 4;
    run(&task);
    run(&among);
    if (texts_compare(&among, &task) != 0) fail_msg("%s: other bits among others", task.layout.name);
    for (int p = 0; p < PROMPTS; p++) {
        double off = logits_differ(task.text[p].logits[0], truth->text[p].logits[0]);
        if (!(off <= near && off > 0)) fail_msg("%s, prompt %d: logits differ by %g", task.layout.name, p, off);
    }
}

static Task int8_truth(ModelName model, bool experts, bool latent)
{
    Task truth = { .model = model, .device = "cpu", .layout = one, .rows = 1, .micros = 1, .end = -1, .experts = experts, .latent = latent };
    prompts_make(&truth);
    for (int p = 0; p < PROMPTS; p++) truth.prompt[p].most = 1;
    run(&truth);
    return truth;
}

static void test_int8(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * MANY; i++) {
        Task truth = int8_truth(MODEL_LLAMA, false, i / MANY), task = truth;
        task.layout = many[i % MANY];
        if (task.layout.zero < 3) int8_case(&truth, task, 0.02);
    }
}

/* Rounding may change the experts of a token; which of them have been rounded does not depend on who holds them. */
static void test_int8_experts(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        Task truth = int8_truth(i ? MODEL_LLAMA : MODEL_GPT, true, false), alone = truth;
        alone.int8 = true, run(&alone);
        for (int l = 0; l < MOE_LAYOUTS; l++) {
            Task task = truth;
            if (moe_layouts[l].layout.zero == 3) continue;
            task.layout = moe_layouts[l].layout, task.etp = moe_layouts[l].etp, task.ep = moe_layouts[l].ep;
            int8_case(&truth, task, 0.02);
            if (task.layout.tp > 1 || task.layout.cp > 1) continue;
            task.int8 = true, run(&task);
            double off = texts_compare(&task, &alone);
            if (!(off <= 1e-6)) fail_msg("%s: logits differ by %g from those of one rank in 8 bits", task.layout.name, off);
        }
    }
}

/* fp32 and bf16: as near to double as these types are, while the ids are the same. */
static void test_types(void **state)
{
    (void)state;
    static const struct { MixedPrecision mixed; double bound; } type[] = { { MIXED_NONE, 1e-5 }, { MIXED_BF16, 0.1 } };
    for (int i = 0; i < 2; i++)
        for (int l = 0; l < MANY; l += 4) {
            Task truth = { .model = MODEL_LLAMA, .device = "ref", .layout = one, .rows = 1, .micros = 1, .end = -1 };
            prompts_make(&truth);
            for (int p = 0; p < PROMPTS; p++) truth.prompt[p].most = 1;
            Task task = truth;
            run(&truth);
            task.device = "cpu";
            task.mixed  = type[i].mixed;
            task.layout = many[l];
            task.rows   = 2;
            run(&task);
            for (int p = 0; p < PROMPTS; p++) {
                double off = logits_differ(task.text[p].logits[0], truth.text[p].logits[0]);
                if (!(off <= type[i].bound)) fail_msg("%s, type %d, prompt %d: logits differ by %g", many[l].name, i, p, off);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cache), cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_greedy_gpt), cmocka_unit_test(test_greedy_llama), cmocka_unit_test(test_top_p_gpt),
        cmocka_unit_test(test_top_p_llama), cmocka_unit_test(test_context), cmocka_unit_test(test_after_documents), cmocka_unit_test(test_experts), cmocka_unit_test(test_end), cmocka_unit_test(test_beams), cmocka_unit_test(test_rows), cmocka_unit_test(test_int8), cmocka_unit_test(test_int8_experts),
        cmocka_unit_test(test_types), cmocka_unit_test(test_threads) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
