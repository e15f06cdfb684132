#ifndef DATA_NPY_ARRAY_H
#define DATA_NPY_ARRAY_H
/* A long array of numbers, made in memory or mapped from a .npy file, which numpy opens. A set of arrays with the words that say
 * what they were made from is a cache: written beside and renamed one by one, words last, so that any number of runs may start at
 * once; they write the same bytes. To map one takes no memory and reads its header alone.                          */
#include "base/file.h"

typedef enum { NPY_I16, NPY_I32, NPY_U32, NPY_I64 } NpyType;
typedef struct {
    NpyType type;
    int64_t   rows;
    int       columns;              /* 1: a row is a number */
    void     *made;                 /* owned; NULL where mapped */
    FileMap   map;
    const void *data;
} NpyArray;

Status  npy_array_new  (NpyArray *index, NpyType type, int64_t rows, int columns);      /* to be filled through `made` */
void    npy_array_close(NpyArray *index);
int     npy_array_width(NpyType type);
int64_t npy_array_at   (const NpyArray *index, int64_t i);                                /* element i, row-major */

/* One cache entry: DIR/KEY-KIND-PART-NAME.npy and -description.txt; KEY is a hash of the words, which are compared too */
typedef struct { char base[900]; const char *words; } NpyCache;
Status npy_cache_name(NpyCache *cache, const char *dir, const char *kind, const char *part, const char *words);
bool   npy_cache_holds(const NpyCache *cache);                                 /* the words are there, and are these */
/* Shape is what the array must have. False: not there, cut or of another shape. */
bool   npy_cache_map  (const NpyCache *cache, const char *name, NpyArray *shape);
Status npy_cache_write(const NpyCache *cache, const char *name, const NpyArray *index);
Status npy_cache_finish(const NpyCache *cache);                                /* the words: from here on others take it */
#endif
