#ifndef DATA_INDEX_H
#define DATA_INDEX_H
/* A long array of numbers, made in memory or mapped from a .npy file, which numpy opens. A set of arrays with the words that say
 * what they were made from is a cache: written beside and renamed one by one, words last, so that any number of runs may start at
 * once; they write the same bytes.                                                                                */
#include "base/file.h"

typedef enum { INDEX_I16, INDEX_I32, INDEX_U32, INDEX_I64 } IndexType;
typedef struct {
    IndexType type;
    int64_t   rows;
    int       columns;              /* 1: a row is a number */
    void     *made;                 /* owned; NULL where mapped */
    FileMap   map;
    const void *data;
} Index;

Status  index_new  (Index *index, IndexType type, int64_t rows, int columns);      /* to be filled through `made` */
void    index_close(Index *index);
int     index_width(IndexType type);
int64_t index_at   (const Index *index, int64_t i);                                /* element i, row-major */

/* One cache entry: DIR/KEY-KIND-PART-NAME.npy and -description.txt; KEY is a hash of the words, which are compared too */
typedef struct { char base[900]; const char *words; } IndexCache;
Status index_cache_name(IndexCache *cache, const char *dir, const char *kind, const char *part, const char *words);
bool   index_cache_holds(const IndexCache *cache);                                 /* the words are there, and are these */
/* Shape is what the array must have. False: not there, cut or of another shape. */
bool   index_cache_map  (const IndexCache *cache, const char *name, Index *shape);
Status index_cache_write(const IndexCache *cache, const char *name, const Index *index);
Status index_cache_finish(const IndexCache *cache);                                /* the words: from here on others take it */
#endif
