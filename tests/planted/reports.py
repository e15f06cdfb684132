"""Planted bugs in reports of runs and in speedruns. The columns are those of bugs.py."""
REPORTS = [
    ("a pipe in the place of a journal that is waited for", "src/base/file.c",
     "    if (status == OK && !S_ISREG(about.st_mode))\n        status = fail(BAD_FILE,\n                      \"%s: is %s",
     "    if (status == OK && S_ISDIR(about.st_mode))\n        status = fail(BAD_FILE,\n                      \"%s: is %s", "report.records"),
    ("a restart that takes whole points of a curve away", "src/report/run_points.c",
     "int64_t steps = p->step - to < p->steps ? p->step - to : p->steps;", "int64_t steps = p->steps;", "report.records"),
    ("a report that joins the newest steps too", "src/report/run_points.h", "RUN_POINTS_APART = 4096 };", "RUN_POINTS_APART = 1 };", "report.records"),
    ("a report that keeps the facts of every start", "src/report/run_record.c",
     "        json_decref(last->facts);\n        json_decref(last->stop);\n        last->facts = last->stop = NULL;", "        last->stop = NULL;", "report.records"),
    ("a report that reads facts of any size", "src/report/run_record.c", "line->bytes > FACTS_MOST || ", "", "report.records"),
    ("joined starts whose stops are lost", "src/report/run_record.c", "all->stopped += all[i].stopped + fmax(0, all[i].begin - all->end);", "", "report.records"),
    ("a speedrun that measures again what it has measured", "src/cli/speedrun/stage_model.c", "    if (before) {", "    if (before && false) {", "cli.speedrun"),
    ("a validation of a speedrun whose text is a token short", "src/cli/speedrun/stage_model.c",
     "\"heldout\") - 1) / (r.sequence * r.batch)", "\"heldout\")) / (r.sequence * r.batch)", "cli.speedrun"),
    ("a path of a speedrun that is cut at its blanks", "src/cli/speedrun/stage_text.c",
     "word_list_add(&words, \"%s\", o->speedrun_input.text[i]);", "word_list_split(&words, \"%s\", o->speedrun_input.text[i]);", "cli.speedrun"),
]
