/* How fast a MediaWiki dump is unpacked and cleaned: bench_wiki FILE [PAGES] [PASSES]
 * The dump is made here: the documents of FILE (.jsonl or .txt) as pages with the markup of an encyclopedia around and in
 * their text, packed as multistream dumps are, 100 pages a stream. MB are of the XML, CPU time is of all threads.        */
#include <bzlib.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/buffer.h"
#include "corpus/read/source.h"
#include "corpus/read/stream.h"
#include "corpus/wiki/wiki_page.h"
#include "corpus/wiki/wiki_text.h"

enum { PAGE_TEXT = 6000, STREAM_PAGES = 100, PACKED_MOST = 4 << 20 };

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void add(Buffer *b, const char *text) { if (buffer_add(b, text, (int64_t)strlen(text)) != OK) exit(3); }

/* ---- the dump ---- */

static const char head[] =
    "{{Infobox ort\n| namn = Orten\n| bild = [[Fil:Orten.jpg|250px]]\n| folk = {{formatnum:12345}}\n| area = {{convert|12|km2}}\n"
    "| koord = {{koord|59|51|N|17|38|E|type:city}}\n}}\n'''Orten''' ({{IPA|x}}) är en [[tätort]] i [[Sverige|riket]].&lt;ref name=&quot;scb&quot;&gt;"
    "{{webbref |url=http://exempel.se/a |titel=Tätorter 2010 |utgivare=[[SCB]] |datum=2012-01-01 |arkiv=ja}}&lt;/ref&gt;\n\n== Historia ==\n";
static const char tail[] =
    "\n{| class=&quot;wikitable&quot;\n! År !! Folk\n|-\n| 1990 || {{formatnum:11000}}\n|-\n| 2000 || {{formatnum:12000}}\n|}\n\n== Se även ==\n"
    "* [[Lista över orter]]\n\n== Referenser ==\n&lt;references /&gt;\n\n== Externa länkar ==\n* [http://exempel.se Sida]\n{{Auktoritetsdata}}\n[[Kategori:Orter]]\n";

/* Text as XML, with a link, bold words, a note, a template now and then: much as an article has them */
static void marked_up(Buffer *b, const char *text, int64_t bytes)
{
    static const char *const marks[] = { "[[Sida om något|", "]]", " '''", "'''", "&lt;ref&gt;{{bokref|titel=En bok|år=1990|sid=12}}&lt;/ref&gt;", " ",
                                         " {{nowrap|12&amp;nbsp;", " km}}", "\n\n=== Mera ===\n", "\n* " };
    enum { MARKS = sizeof marks / sizeof *marks };
    int words = 0, mark = 0;
    for (int64_t i = 0; i < bytes; i++) {
        char c[2] = { text[i], 0 };
        add(b, *c == '&' ? "&amp;" : *c == '<' ? "&lt;" : *c == '>' ? "&gt;" : c);
        if (*c == ' ' && ++words % 9 == 0) add(b, marks[mark++ % MARKS]);
    }
    if (mark % 2) add(b, marks[mark % MARKS]);
}

static void page_add(Buffer *b, int64_t id, const char *text, int64_t bytes)
{
    char line[256];
    snprintf(line, sizeof line, "  <page>\n    <title>Ort %" PRId64 "</title>\n    <ns>0</ns>\n    <id>%" PRId64 "</id>\n    <revision>\n      <id>1</id>\n"
             "      <model>wikitext</model>\n      <text bytes=\"1\" xml:space=\"preserve\">", id, id);
    add(b, line);
    add(b, head);
    marked_up(b, text, bytes);
    add(b, tail);
    add(b, "</text>\n    </revision>\n  </page>\n");
}

/* The pages of one stream after the last of `packed` */
static void stream_add(Buffer *packed, const char *xml, int64_t bytes)
{
    unsigned capacity = (unsigned)(bytes + bytes / 50 + 1000);
    if (buffer_reserve(packed, capacity) != OK) exit(3);
    BZ2_bzBuffToBuffCompress(packed->text + packed->bytes, &capacity, (char *)(uintptr_t)xml, (unsigned)bytes, 9, 0, 0);
    packed->bytes += capacity;
}

static Status dump_make(Buffer *xml, Buffer *packed, const char *path, int64_t pages)
{
    Source  *source;
    Document document;
    bool     more = true;
    Status   status = OK;
    int64_t  made = 0, stream = 0;
    TRY(source_open(&source, path, "text", (TextRules){ 0 }));
    while (made < pages && (status = source_next(source, &document, &more)) == OK && more)
        for (int64_t at = 0; made < pages && at < document.bytes; at += PAGE_TEXT) {
            page_add(xml, ++made, document.text + at, document.bytes - at < PAGE_TEXT ? document.bytes - at : PAGE_TEXT);
            if (made % STREAM_PAGES) continue;
            stream_add(packed, xml->text + stream, xml->bytes - stream);
            stream = xml->bytes;
        }
    source_close(source);
    if (xml->bytes > stream) stream_add(packed, xml->text + stream, xml->bytes - stream);
    return status;
}

/* ---- measures ---- */

static void said(const char *what, double wall, double cpu, int64_t bytes)
{
    printf("%-28s %7.1f MB/s, %7.1f of CPU time\n", what, 1e-6 * (double)bytes / wall, 1e-6 * (double)bytes / cpu);
}

static void clean(const Buffer *xml, int passes)
{
    static Buffer out;
    double  cpu[3] = { 0 };
    int64_t wiki = 0, left = 0;
    char   *block = malloc((size_t)xml->bytes);
    for (int i = 0; i < passes; i++) {
        WikiPage page;
        const char *why;
        memcpy(block, xml->text, (size_t)xml->bytes);
        for (int64_t at = 0; ; ) {
            double a = now(CLOCK_THREAD_CPUTIME_ID);
            if (!wiki_page_next(block, xml->bytes, &at, &page, &why)) break;
            double b = now(CLOCK_THREAD_CPUTIME_ID);
            out.bytes = 0;
            if (wiki_text(&out, page.text.text, page.text.bytes) != OK) exit(3);
            cpu[0] += b - a;
            cpu[1] += now(CLOCK_THREAD_CPUTIME_ID) - b;
            wiki += page.text.bytes;
            left += out.bytes;
        }
    }
    free(block);
    said("pages of the XML", cpu[0], cpu[0], xml->bytes * passes);
    said("wikitext to text", cpu[1], cpu[1], wiki);
    printf("%.1f MB of wikitext, %.1f MB of text\n", 1e-6 * (double)wiki / passes, 1e-6 * (double)left / passes);
}

static Status unpack(const Buffer *packed, int threads)
{
    static char out[1 << 20];
    char    what[64];
    Stream *stream;
    size_t  got = 1;
    int64_t bytes = 0;
    double  wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    TRY(stream_of(&stream, fmemopen(packed->text, (size_t)packed->bytes, "rb"), "dump.bz2", codec_by_ending("dump.bz2"), 400));
    TRY(stream_ahead(stream, threads));
    while (got) {
        TRY(stream_read(stream, out, sizeof out, &got));
        bytes += (int64_t)got;
    }
    stream_close(stream);
    snprintf(what, sizeof what, "bzip2, %d thread%s", threads, threads > 1 ? "s" : "");
    said(what, now(CLOCK_MONOTONIC) - wall, now(CLOCK_PROCESS_CPUTIME_ID) - cpu, bytes);
    return OK;
}

static Status bench(const char *path, int64_t pages, int passes)
{
    Buffer xml = { 0 }, packed = { 0 };
    TRY(dump_make(&xml, &packed, path, pages));
    printf("%.1f MB of XML, %.1f MB packed\n", 1e-6 * (double)xml.bytes, 1e-6 * (double)packed.bytes);
    clean(&xml, passes);
    for (int threads = 1; threads <= 2; threads++) TRY(unpack(&packed, threads));
    return OK;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "bench_wiki FILE [PAGES] [PASSES]\n");
        return 2;
    }
    if (bench(argv[1], argc > 2 ? strtol(argv[2], NULL, 10) : 5000, argc > 3 ? (int)strtol(argv[3], NULL, 10) : 3) == OK) return 0;
    fprintf(stderr, "%s\n", fail_text());
    return 1;
}
