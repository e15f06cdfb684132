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

static void csv(FILE *out, const Sweep *sweep)
{
    for (int a = 0; a < sweep->axes; a++) fprintf(out, "%s,", sweep->axis[a].name);
    fprintf(out, "check,parameters,steps,tokens,flops,validation_loss,training_loss,seconds,state\n");
    for (int i = 0; i < sweep->runs; i++) {
        const SweepRun *run = &sweep->run[i];
        char validation[32], training[32];
        for (int a = 0; a < sweep->axes; a++) {
            if (a == sweep->depth_axis) fprintf(out, "%lld,", (long long)run->depth);
            else fprintf(out, "%s,", sweep->axis[a].value[run->at[a]]);
        }
        fprintf(out, "%d,%lld,%lld,%lld,%.6g,%s,%s,%.3f,%s\n", run->check, (long long)run->parameters,
                (long long)run->steps, (long long)run->tokens, run->flops,
                loss_text(validation, run->validation), loss_text(training, run->training), run->seconds,
                run->state == SWEEP_DONE ? "done" : "failed");
    }
}

static void json_loss(FILE *out, const char *key, double loss)
{
    if (isfinite(loss)) fprintf(out, ",\"%s\":%.17g", key, loss);
    else                fprintf(out, ",\"%s\":null", key);
}

/* The names and values of axes are names of options, numbers and words of choices: none needs an escape. */
static void json_lines(FILE *out, const Sweep *sweep)
{
    for (int i = 0; i < sweep->runs; i++) {
        const SweepRun *run = &sweep->run[i];
        fprintf(
            out,
            "{\"run\":\"%s\",\"check\":%s,\"parameters\":%lld,\"steps\":%lld,\"tokens\":%lld,\"flops\":%.17g",
            run->name, run->check ? "true" : "false", (long long)run->parameters, (long long)run->steps,
            (long long)run->tokens, run->flops);
        json_loss(out, "validation_loss", run->validation);
        json_loss(out, "training_loss", run->training);
        fprintf(out, ",\"seconds\":%.3f,\"state\":\"%s\"}\n", run->seconds,
                run->state == SWEEP_DONE ? "done" : "failed");
    }
}

static Status write_by(void (*body)(FILE *, const Sweep *), const Sweep *sweep, const char *name)
{
    char path[1024], *text = NULL;
    size_t bytes;
    TRY(path_join(path, sweep->own->sweep_dir, name));
    FILE *out = open_memstream(&text, &bytes);
    if (out) body(out, sweep);
    CHECK(out && fclose(out) == 0, "no memory for %s", path);
    Status status = file_write_whole(path, text, bytes);
    free(text);
    return status;
}

Status sweep_results(const Sweep *sweep)
{
    table(sweep);
    TRY(write_by(csv, sweep, "results.csv"));
    return write_by(json_lines, sweep, "results.jsonl");
}
