/* Options compared with those of the checkpoint that a run resumes from. There are four kinds of rows:
 *
 *     FOR_SHAPE      what the weights mean: another value is refused
 *     FOR_STATES     which states the optimizer has: refused, unless its states are not loaded
 *     FOR_SCHEDULE   learning rate and weight decay by step: refused, unless
 *                    --override-opt-param-scheduler or --use-checkpoint-opt-param-scheduler is given
 *     FOR_SAME_RUN   what else the losses depend on: named in one line
 *
 * All that is refused is named at once, with both values and what to do. A run that takes weights alone
 * (--finetune) is another run, so that only FOR_SHAPE counts. Options may be the same and mean another
 * schedule, beside another batch size: cli/setup/resumed_schedule.c compares the rates. */
#include "base/log.h"
#include "conf/conf.h"
#include "conf/saved.h"
#include "conf/schedule.h"
#include "conf/value.h"
#include "conf/wants.h"
#include <math.h>
#include <string.h>
#include "base/message.h"

enum { MORE = 40 };                         /* bytes of "; and 12 more" */
typedef enum { REFUSED_SHAPE, REFUSED_STATES, REFUSED_SCHEDULE, REFUSALS } Refusal;

/* What follows from another option, like a width from --swiglu, is refused only where nothing else is. */
typedef struct { int count, typed; OptionIndex first; char was[256], all[400]; } RefusedOptions;
typedef struct {
    const Options *o;
    const char    *path;
    Options        was;                     /* of the checkpoint: what lengths of schedules follow from */
    RefusedOptions refused[REFUSALS], derived[REFUSALS];
    bool           tells;                   /* the second look, which logs what is refused */
    int            more;                    /* changes for which `changed` has no room */
    char           changed[800];
} CheckpointComparison;

static void note_change(CheckpointComparison *m, const char *now, const char *was, const char *keeps)
{
    m->more += !message_item(m->changed, sizeof m->changed - MORE, "; ", "%s, was %s%s", now, was, keeps);
}

/* "--lr 0.25", "--lr 0.0003 (default)", "no --decoupled-lr" */
static const char *said_here(char *out, size_t size, const Options *o, OptionIndex option)
{
    if (o->source[option].kind != SOURCE_NOTHING) return options_typed(out, size, o, option);
    snprintf(out, size, "no --%s", option_rows[option].name);
    return out;
}

static void note_refused(CheckpointComparison *m, Refusal kind, OptionIndex option, const char *was)
{
    char said[512];
    bool derived = m->o->source[option].kind == SOURCE_DERIVED;
    RefusedOptions *r = derived ? &m->derived[kind] : &m->refused[kind];
    said_here(said, sizeof said, m->o, option);
    if (m->tells && !derived) log_line("%s contradicts %s, which has %s", said, m->path, was);
    if (m->tells) return;
    if (r->count++ == 0) {
        r->first = option;
        snprintf(r->was, sizeof r->was, "%s", was);
    }
    r->typed += options_typed_by_person(m->o, option);
    message_item(r->all, sizeof r->all, "; ", "%s, was %s", said, was);
}

/* One that is derived from an option that may change, like lr-decay-iters from train-iters, is kept only
 * where it is given. */
static void note_difference(CheckpointComparison *m, OptionIndex option, const char *was)
{
    const Options *o = m->o;
    char said[512], keeps[400] = "";
    bool derived = o->source[option].kind == SOURCE_DERIVED;
    if (option_taken(option, FOR_SHAPE)) note_refused(m, REFUSED_SHAPE, option, was);
    else if (option_taken(option, FOR_STATES) && o->checkpoint.states)
        note_refused(m, REFUSED_STATES, option, was);
    else if (option_taken(option, FOR_SCHEDULE) && !derived && !o->override_schedule)
        note_refused(m, REFUSED_SCHEDULE, option, was);
    else if (!m->tells) {
        if (derived && !strncmp(was, "--", 2)) snprintf(keeps, sizeof keeps, ", which keeps that");
        else if (derived)
            snprintf(keeps, sizeof keeps, " (--%s %.300s keeps that)", option_rows[option].name, was);
        note_change(m, said_here(said, sizeof said, o, option), was, keeps);
    }
}

/* Compared as text, which is unique for each value. Of a list the text is only its first word, so its
 * words are compared. */
static bool same_value(const Options *a, const Options *b, OptionIndex option)
{
    char now[1024], was[1024];
    options_value_text(now, sizeof now, a, option);
    options_value_text(was, sizeof was, b, option);
    if (option_rows[option].kind != KIND_LIST) return !strcmp(now, was);
    const TextList *x = option_field_of(a, option), *y = option_field_of(b, option);
    bool same = x->count == y->count;
    for (int i = 0; same && i < x->count; i++) same = !strcmp(x->text[i], y->text[i]);
    return same;
}

/* Whether the optimizers of both, as AdamW and LAMB, have the same states, so that one may continue the
 * other's run. */
static bool same_states(const Options *now, const Options *was)
{
    return now->checkpoint.share_states &&
           now->checkpoint.share_states(now->optimizer.word, was->optimizer.word);
}

/* Which rows are compared depends on what is loaded. */
static CommandSet compared_rows(const Options *o)
{
    return o->checkpoint.position ? FOR_SHAPE | FOR_STATES | FOR_SCHEDULE | FOR_SAME_RUN : FOR_SHAPE;
}

/* A new reference. Where the options are all of a model, it has the default of those that are not there.
 * NULL: the checkpoint does not tell. */
static json_t *saved_value(const CheckpointComparison *m, OptionIndex option, const json_t *saved)
{
    const OptionRow *row = &option_rows[option];
    json_t *value = json_object_get(saved, row->name);
    if (value || !m->o->checkpoint.whole || !option_taken(option, FOR_SHAPE)) return json_incref(value);
    if (row->kind == KIND_FLAG) return json_false();
    return *row->text ? json_string(row->text) : NULL;
}

/* -1: the option says no length of a schedule. */
static int length_of(OptionIndex option)
{
    for (int i = 0; i < SCHEDULE_LENGTHS; i++)
        for (int k = 0; k < schedule_lengths[i].ways; k++)
            if (schedule_lengths[i].way[k] == option) return i;
    return -1;
}

/* Whether the checkpoint says the value, or that there is none. */
static bool saved_tells(const Options *o, const json_t *saved, OptionIndex option)
{
    int length = length_of(option);
    bool known = o->checkpoint.given || json_object_get(saved, option_rows[option].name);
    for (int k = 0; length >= 0 && k < schedule_lengths[length].ways; k++)
        known |= json_object_get(saved, option_rows[schedule_lengths[length].way[k]].name) != NULL;
    return known;
}

/* As if the option had not been given. */
static Status take_back(Options *o, OptionIndex option)
{
    const OptionRow *row = &option_rows[option];
    char name[128];
    snprintf(name, sizeof name, "--%s", row->name);
    OptionSource source = option_source(SOURCE_DEFAULT, name, "", "");
    CHECK(row->kind == KIND_INT || row->kind == KIND_REAL || *row->text, "%s has no value to go back to",
          name);
    o->source[option].kind = SOURCE_NOTHING;
    if (*row->text) return options_set(o, option, row->text, source);
    if (row->kind == KIND_INT) *(OptionINT *)option_field(o, option) = 0;
    else                       *(OptionREAL *)option_field(o, option) = 0;
    o->source[option] = (OptionSource){ SOURCE_NOTHING, options_hold(o, name), "", "", CONVERT_NONE, false };
    return OK;
}

/* What the schedule follows from beside its own options. */
static bool schedule_follows(OptionIndex option)
{
    switch (option) {
    case OPTION_global_batch: case OPTION_sequence:
    case OPTION_train_iters:  case OPTION_train_samples: case OPTION_train_tokens: return true;
    default: return option_taken(option, FOR_SCHEDULE);
    }
}

/* The options of the checkpoint's schedule, the others as here; the caller closes them, after a failure
 * too. */
static Status read_schedule(Options *was, const Options *o, const json_t *saved, const char *path)
{
    *was = *o;
    was->held = NULL;
    was->words = (TextList){ 0 };
    for (int i = 0; i < OPTIONS; i++)
        if (option_rows[i].kind == KIND_LIST) *(TextList *)option_field(was, i) = (TextList){ 0 };
    for (int i = 0; i < OPTIONS; i++) {
        const json_t *value = json_object_get(saved, option_rows[i].name);
        if (!schedule_follows(i) || !saved_tells(o, saved, i)) continue;
        TRY(take_back(was, i));
        if (value) TRY(options_set_saved(was, i, value, path));
    }
    return OK;
}

Status options_saved_schedule(Options *was, const Options *o)
{
    json_t *saved = json_loads(o->checkpoint.options, 0, NULL);
    Status status = read_schedule(was, o, saved, o->checkpoint.path);
    json_decref(saved);
    return status;
}

/* The length of the checkpoint's schedule as an option that has the same meaning here: in samples where it is
 * in steps of another batch size. */
static const char *same_length(char *out, size_t size, const CheckpointComparison *m, int length)
{
    char value[64];
    OptionIndex there = options_length_said(&m->was, length);
    options_value_text(value, sizeof value, &m->was, there);
    if (m->was.global_batch != m->o->global_batch && there == schedule_lengths[length].way[0])
        snprintf(out, size, "--%s %.0f", option_rows[schedule_lengths[length].way[1]].name,
                 options_length(&m->was, length));
    else snprintf(out, size, "--%s %s", option_rows[there].name, value);
    return out;
}

/* Of a length that one run says in steps and the other in samples, as a share of them, or in steps of another
 * batch size, samples are compared. The same steps of another batch size are no other value: whether they
 * change a rate is seen from the rates (cli/setup/resumed_schedule.c). Returns whether that has compared
 * `option`. */
static bool match_length(CheckpointComparison *m, int length, OptionIndex option)
{
    enum { DIGITS = 1000000000 };                       /* a share of samples is rounded */
    char was[160];
    OptionIndex here = options_length_said(m->o, length), there = options_length_said(&m->was, length);
    bool none = m->o->source[here].kind == SOURCE_NOTHING || m->was.source[there].kind == SOURCE_NOTHING;
    if (option != here) return true;                    /* it says nothing beside that one */
    if (here == there && (none || m->was.global_batch == m->o->global_batch)) return false;
    if (none) return true;
    double now = options_length(m->o, length), before = options_length(&m->was, length);
    if (fabs(now - before) * DIGITS <= fmax(now, before)) return true;
    if (here == there && same_value(m->o, &m->was, option)) return true;
    note_difference(m, here, same_length(was, sizeof was, m, length));
    return true;
}

/* A value on one side alone. A dynamic loss scale is match_loss_scale's. What the checkpoint lacks was
 * not there where its options are all of its run; a value that follows from others it may have had before it
 * was an option. */
static void match_absent(CheckpointComparison *m, OptionIndex option, const char *was)
{
    bool here = m->o->source[option].kind > SOURCE_DERIVED, has_default = *option_rows[option].text;
    if (option == OPTION_loss_scale || option_taken(option, FOR_SHAPE)) return;
    if (was) note_difference(m, option, was);
    else if (here && !has_default && option_rows[option].kind != KIND_FLAG && m->o->checkpoint.given)
        note_difference(m, option, "none");
}

/* An option that does not count here is not compared: a rotary base with learned positions, for example. */
static Status match_value(CheckpointComparison *m, OptionIndex option, const json_t *saved)
{
    Options saved_options = { 0 };
    char was[1024];
    int length = length_of(option);
    if (!option_taken(option, compared_rows(m->o)) || !option_counts(m->o, option)) return OK;
    if (length >= 0 && match_length(m, length, option)) return OK;
    json_t *value = saved_value(m, option, saved);
    bool here = m->o->source[option].kind != SOURCE_NOTHING;
    if (!value && here) match_absent(m, option, NULL);
    if (!value) return OK;
    Status status = options_set_saved(&saved_options, option, value, m->path);
    json_decref(value);
    options_value_text(was, sizeof was, &saved_options, option);
    if (status == OK && !here) match_absent(m, option, was);
    else if (status == OK && !same_value(m->o, &saved_options, option)) {
        char said[512];
        if (option == OPTION_optimizer && same_states(m->o, &saved_options) && !m->tells)
            note_change(m, options_typed(said, sizeof said, m->o, option), was, "");
        else if (option != OPTION_optimizer || !same_states(m->o, &saved_options))
            note_difference(m, option, was);
    }
    options_close(&saved_options);
    return status;
}

/* A dynamic loss scale is no --loss-scale, so that the change from or to a constant one has no second
 * value. */
static void match_loss_scale(CheckpointComparison *m, const json_t *saved)
{
    char said[512], was[64];
    const json_t *value = json_object_get(saved, option_rows[OPTION_loss_scale].name);
    bool constant = m->o->loss_scale > 0;
    if (!m->o->fp16 || !json_is_true(json_object_get(saved, option_rows[OPTION_fp16].name))) return;
    snprintf(was, sizeof was, "--loss-scale %g", json_number_value(value));
    if (constant && !value)
        note_change(m, options_typed(said, sizeof said, m->o, OPTION_loss_scale), "dynamic", "");
    if (!constant && value) note_change(m, "a dynamic loss scale", was, "");
}

/* The way out depends on who gave the value: what a person typed can be left out, a default cannot. */
static const char *cure(char out[256], const CheckpointComparison *m, const RefusedOptions *r, Refusal kind)
{
    const Options *o = m->o;
    const char *args = o->use_checkpoint_args ? "" : " and give --use-checkpoint-args";
    switch (kind) {
    case REFUSED_STATES:
        return "the states of the two differ: --no-load-optim begins with new ones";
    case REFUSED_SCHEDULE:
        return "--override-opt-param-scheduler takes the new schedule, --use-checkpoint-opt-param-scheduler "
               "the checkpoint's";
    case REFUSED_SHAPE:
    case REFUSALS: break;
    }
    if (o->checkpoint.foreign)
        snprintf(out, 256, "the checkpoint's own config decides the shape of the model: leave %s out",
                 r->count > 1 ? "them" : o->source[r->first].name);
    else if (r->count > 1 && r->typed > 0)
        snprintf(out, 256, "leave what you gave of them out%s, or start a new run without --load", args);
    else if (r->typed > 0)
        snprintf(out, 256, "leave %s out%s, or start a new run without --load", o->source[r->first].name,
                 args);
    else snprintf(out, 256, "give --use-checkpoint-args, or start a new run without --load");
    return out;
}

static Status refuse_kind(const CheckpointComparison *m, const RefusedOptions *r, Refusal kind)
{
    char said[512], way[256];
    said_here(said, sizeof said, m->o, r->first);
    cure(way, m, r, kind);
    if (r->count == 1)
        return fail(BAD_OPTION, "%s, but %s %s %s; %s", said, m->path,
                    m->o->checkpoint.foreign && kind == REFUSED_SHAPE ? "has" : "was trained with", r->was,
                    cure(way, m, r, kind));
    return fail(BAD_OPTION, "%d options contradict %s: %s; %s", r->count, m->path, r->all,
                cure(way, m, r, kind));
}

/* The gravest kind has the message. Where there are several differences, each has a line in the log. */
static Status refuse_contradictions(CheckpointComparison *m, const json_t *saved)
{
    int all = 0;
    for (Refusal k = 0; k < REFUSALS; k++) all += m->refused[k].count;
    m->tells = true;
    for (int i = 0; i < OPTIONS && all > 1; i++) TRY(match_value(m, i, saved));
    for (Refusal k = 0; k < REFUSALS; k++)
        if (m->refused[k].count) return refuse_kind(m, &m->refused[k], k);
    for (Refusal k = 0; k < REFUSALS; k++)
        if (m->derived[k].count) return refuse_kind(m, &m->derived[k], k);
    return OK;
}

Status options_match_json(Options *o, const char *json, const char *path)
{
    json_t *object = json_loads(json, 0, NULL);
    CheckpointComparison m = { .o = o, .path = path };
    Status status = json_is_object(object) ? OK
                  : fail(BAD_FILE, "%s: its options are not a JSON object", path);
    if (status == OK) status = read_schedule(&m.was, o, object, path);
    for (int i = 0; i < OPTIONS && status == OK; i++) status = match_value(&m, i, object);
    if (status == OK && o->checkpoint.position) match_loss_scale(&m, object);
    if (status == OK) status = refuse_contradictions(&m, object);
    json_decref(object);
    options_close(&m.was);
    if (m.more) message_item(m.changed, sizeof m.changed, "; and ", "%d more", m.more);
    o->changed = *m.changed ? options_hold(o, m.changed) : NULL;
    return status;
}

/* ---- the checkpoint's schedule instead ---- */

/* How long the checkpoint's run was to be; "" where it does not tell, or this run is as long. */
static const char *other_length(char *out, size_t size, const Options *o, const json_t *saved)
{
    static const OptionIndex lengths[] = { OPTION_train_iters, OPTION_train_samples, OPTION_train_tokens };
    *out = 0;
    for (int i = 0; i < 3 && !*out; i++) {
        const char *name = option_rows[lengths[i]].name;
        json_int_t was = json_integer_value(json_object_get(saved, name));
        int64_t now = *(const OptionINT *)option_field_of(o, lengths[i]);
        if (was > 0 && now > 0 && was != now)
            snprintf(out, size, "--%s %" JSON_INTEGER_FORMAT, name, was);
    }
    return out;
}

static const char *new_schedule(Options *o)
{
    char text[256];
    const OptionSource *kept = &o->source[OPTION_checkpoint_schedule];
    snprintf(text, sizeof text, "it is kept by %.200s", kept->from);
    if (kept->kind == SOURCE_PRESET) return options_hold(o, text);
    return "--override-opt-param-scheduler instead of --use-checkpoint-opt-param-scheduler takes the new one";
}

/* A schedule that ends elsewhere than this run. */
static void note_kept_length(Options *o, const json_t *saved)
{
    char length[128], value[64], decay[128] = "";
    if (!*other_length(length, sizeof length, o, saved)) return;
    OptionIndex option = options_length_said(o, LENGTH_DECAY);
    if (o->source[option].kind > SOURCE_DEFAULT) {
        options_value_text(value, sizeof value, o, option);
        snprintf(decay, sizeof decay, ", --%s %s", option_rows[option].name, value);
    }
    log_line("%s is of a run of %s, whose schedule of learning rate and weight decay is kept%s; %s",
             o->checkpoint.path, length, decay, new_schedule(o));
}

/* typed, was: what somebody gave here, and its value. */
static void note_kept(Options *o, OptionIndex option, const char *typed, const char *was)
{
    char value[256];
    bool none = o->source[option].kind == SOURCE_NOTHING;
    options_value_text(value, sizeof value, o, option);
    if (!none && !strcmp(value, was)) return;
    log_line("%s is ignored: the run resumes with its checkpoint's schedule, %s--%s%s%s; %s", typed,
             none ? "without " : "", option_rows[option].name, none ? "" : " ", none ? "" : value,
             new_schedule(o));
}

Status options_take_schedule(Options *o)
{
    char text[256];
    const char *typed[OPTIONS] = { NULL }, *was[OPTIONS] = { NULL };
    if (o->override_schedule)
        return fail(BAD_OPTION, "--override-opt-param-scheduler takes the new schedule and "
                    "--use-checkpoint-opt-param-scheduler the checkpoint's: give one of them");
    json_t *saved = json_loads(o->checkpoint.options, 0, NULL);
    Status status = OK;
    for (int i = 0; i < OPTIONS && status == OK; i++) {
        if (!option_taken(i, FOR_SCHEDULE) || !saved_tells(o, saved, i)) continue;
        if (options_typed_by_person(o, i)) {
            typed[i] = options_hold(o, options_typed(text, sizeof text, o, i));
            was[i] = options_hold(o, options_value_text(text, sizeof text, o, i));
        }
        if (o->source[i].kind > SOURCE_DEFAULT) status = take_back(o, i);
    }
    if (status == OK) status = options_from_json(o, o->checkpoint.options, o->checkpoint.path, FOR_SCHEDULE);
    for (int i = 0; i < OPTIONS && status == OK; i++)
        if (typed[i]) note_kept(o, i, typed[i], was[i]);
    json_decref(saved);
    return status;
}

Status options_keep_lengths(Options *o)
{
    Options was;
    Status status = options_saved_schedule(&was, o);
    for (int i = 0; i < SCHEDULE_LENGTHS && status == OK && was.global_batch != o->global_batch; i++) {
        char samples[64];
        const OptionIndex *way = schedule_lengths[i].way;
        OptionSource source = option_source(SOURCE_CHECKPOINT, NAMED(way[1]), "", o->checkpoint.path);
        if (options_length_said(&was, i) != way[0] || !(options_length(&was, i) > 0)) continue;
        snprintf(samples, sizeof samples, "%.0f", options_length(&was, i));
        status = options_set(o, way[1], samples, source);
    }
    options_close(&was);
    json_t *saved = json_loads(o->checkpoint.options, 0, NULL);
    if (status == OK) note_kept_length(o, saved);
    json_decref(saved);
    return status;
}
