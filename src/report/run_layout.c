#include "report/run_layout.h"
#include <stdio.h>
#include "base/message.h"

static int whole_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? (int)json_integer_value(value) : 0;
}

const char *run_layout_text(char out[RUN_LAYOUT_ROOM], const json_t *start)
{
    static const char *const axis[] = { "tp", "cp", "pp", "dp", "ep", "etp" };
    const json_t *layout = json_object_get(start, "layout"), *schedule = json_object_get(start, "schedule");
    const char *by = json_string_value(json_object_get(schedule, "name"));
    out[0] = '\0';
    for (int i = 0; i < 6; i++) {
        int size = whole_of(layout, axis[i]);
        if (size < 2 && (i != 3 || size < 1)) continue;
        message_item(out, RUN_LAYOUT_ROOM, ", ", "%s %d", axis[i], size);
        if (i == 2 && by) message_add(out, RUN_LAYOUT_ROOM, " by %.30s", by);
        if (i == 0 && json_is_true(json_object_get(layout, "sequence_parallel")))
            message_add(out, RUN_LAYOUT_ROOM, " with sequence parallelism");
    }
    if (whole_of(layout, "zero") > 0)
        message_item(out, RUN_LAYOUT_ROOM, ", ", "ZeRO %d", whole_of(layout, "zero"));
    return out;
}
