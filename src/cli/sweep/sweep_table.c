/* The tables of a sweep: what is planned, and what its runs have reached. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "cli/sweep/sweep.h"

static int name_width(const Sweep *sweep)
{
    int width = 3;
    for (int i = 0; i < sweep->runs; i++)
        if ((int)strlen(sweep->run[i].name) > width) width = (int)strlen(sweep->run[i].name);
    return width;
}

static const char *word_of(const SweepRun *run, const char *name)
{
    size_t letters = strlen(name);
    for (int i = run->words.count - 1; i >= 0; i--) {
        const char *word = run->words.word[i];
        if (!strncmp(word, name, letters) && word[letters] == '=') return word + letters + 1;
        if (!strcmp(word, name) && i + 1 < run->words.count) return run->words.word[i + 1];
    }
    return "";
}

void sweep_show_plan(const Sweep *sweep)
{
    int width = name_width(sweep);
    printf("%-*s %8s %12s %12s %10s %10s %10s\n", width, "run", "width", "parameters", "tokens", "steps",
           "lr", "FLOPs");
    for (int i = 0; i < sweep->runs; i++) {
        const SweepRun *run = &sweep->run[i];
        printf("%-*s %8s %12lld %12lld %10lld %10s %10.3g%s%s\n", width, run->name,
               word_of(run, "--hidden-size"), (long long)run->parameters, (long long)run->tokens,
               (long long)run->steps, word_of(run, "--lr"), run->flops, run->check ? "  checks the law" : "",
               run->state == SWEEP_DONE ? "  done"
               : run->step              ? "  begun"
                                        : "");
    }
    fflush(stdout);
}

static const char *loss_text(char out[32], double loss)
{
    out[0] = 0;
    if (isfinite(loss)) snprintf(out, 32, "%.6f", loss);
    return out;
}

static void table(const Sweep *sweep)
{
    char validation[32], training[32], took[24];
    int width = name_width(sweep);
    printf("\n%-*s %12s %12s %10s %10s %10s\n", width, "run", "parameters", "tokens", "validation",
           "training", "time");
    for (int i = 0; i < sweep->runs; i++) {
        const SweepRun *run = &sweep->run[i];
        if (run->state == SWEEP_FAILED) {
            printf("%-*s failed: %s\n", width, run->name, run->failure);
            continue;
        }
        printf("%-*s %12lld %12lld %10s %10s %10s%s\n", width, run->name, (long long)run->parameters,
               (long long)run->tokens, loss_text(validation, run->validation),
               loss_text(training, run->training), log_time(took, run->seconds),
               run->check ? "  checks the law" : "");
    }
}

/* A loss with all of its digits; nothing where there is none. */
static const char *loss_digits(char out[32], double loss)
{
    options_real_text(out, 32, loss);
    return isfinite(loss) ? out : "";
}

/* The names and values of axes are names of options, numbers and words of choices: none needs an escape. */
static void csv(FILE *out, const Sweep *sweep)
{
    fputs("run", out);
    for (int a = 0; a < sweep->axes; a++) fprintf(out, ",%s", sweep->axis[a].name);
    fprintf(out, ",check,parameters,steps,tokens,flops,validation_loss,training_loss,seconds,state\n");
    for (int i = 0; i < sweep->runs; i++) {
        const SweepRun *run = &sweep->run[i];
        char validation[32], training[32];
        fprintf(out, "\"%s\"", run->name);
        for (int a = 0; a < sweep->axes; a++) {
            if (a == sweep->depth_axis) fprintf(out, ",%lld", (long long)run->depth);
            else fprintf(out, ",%s", sweep->axis[a].value[run->at[a]]);
        }
        fprintf(out, ",%d,%lld,%lld,%lld,%.17g,%s,%s,%.3f,%s\n", run->check, (long long)run->parameters,
                (long long)run->steps, (long long)run->tokens, run->flops,
                loss_digits(validation, run->validation), loss_digits(training, run->training), run->seconds,
                run->state == SWEEP_DONE ? "done" : "failed");
    }
}

Status sweep_results(const Sweep *sweep)
{
    char path[1024], *text = NULL;
    size_t bytes;
    table(sweep);
    TRY(path_join(path, sweep->own->sweep_dir, "results.csv"));
    FILE *out = open_memstream(&text, &bytes);
    if (out) csv(out, sweep);
    CHECK(out && fclose(out) == 0, "no memory for %s", path);
    Status status = file_write_whole(path, text, bytes);
    free(text);
    return status;
}
