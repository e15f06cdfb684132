#ifndef REPORT_HTML_H
#define REPORT_HTML_H
/* Pages of HTML that need no other file: styles and one small script are in them, and a policy forbids
 * every request. What comes from a run (names, texts, options) goes through html_text, so that it is shown
 * as text whatever it holds. */
#include "chart/chart.h"

/* refresh: seconds after which the page loads itself again; 0: it does not */
void html_begin(FILE *out, const char *title, int refresh);
void html_end  (FILE *out);
/* As text, of any bytes; NULL: nothing. */
void html_text (FILE *out, const char *text);
/* A string of JSON that may stand in a <script>. NULL: null. */
void html_json (FILE *out, const char *text);
/* A key number of the page: what it is, and its value. */
void html_tile (FILE *out, const char *what, const char *value);
/* A chart with its title, the values of its curves as JSON for the script, a legend where there are several
 * curves, and a table of some of its rows. id: of the figure, unique on the page. note: below it; NULL: none
 */
void html_figure(FILE *out, const Chart *chart, const char *id, const char *note);
/* Of a part of `of`: a bar that is as wide. kind: a colour of chart_style */
void html_bar  (FILE *out, double part, double of, int kind);
#endif
