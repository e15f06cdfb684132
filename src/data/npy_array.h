#ifndef DATA_NPY_ARRAY_H
#define DATA_NPY_ARRAY_H
/* A long array of integers, built in memory or mapped from a .npy file, which numpy can open; and a cache
 * of such arrays.
 *
 * A cache entry is a set of arrays and a text that describes what they were computed from. Each file is
 * written beside its final name and renamed, the description last, so that any number of runs may start at
 * once; they write the same bytes. Mapping an array takes no memory and reads only its header. */
#include "base/file.h"

typedef enum { NPY_I16, NPY_I32, NPY_U32, NPY_I64 } NpyType;
typedef struct {
    NpyType   type;
    int64_t   rows;
    int       columns;              /* 1: the array has one dimension */
    void     *made;                 /* [rows, columns] owned; NULL if mapped */
    FileMap   map;
    const void *data;               /* the elements, in `made` or in the map */
} NpyArray;

/* To be filled through `made`. */
Status  npy_array_new  (NpyArray *index, NpyType type, int64_t rows, int columns);
void    npy_array_close(NpyArray *index);
/* Bytes of an element. */
int     npy_array_width(NpyType type);
/* Element i, row-major. */
int64_t npy_array_at   (const NpyArray *index, int64_t i);

/* One cache entry: DIR/KEY-KIND-PART-NAME.npy and DIR/KEY-KIND-PART-description.txt. KEY is a hash of the
 * description; the description itself is compared too, so a collision of hashes does no harm. The
 * description is the caller's and must outlive the entry. */
typedef struct { char base[900]; const char *description; } NpyCache;
Status npy_cache_name(NpyCache *cache, const char *dir, const char *kind, const char *part,
                      const char *description);
bool   npy_cache_holds(const NpyCache *cache);             /* a complete entry with this description exists */
/* Maps an array; *shape has the type, rows and columns that it must have. False if the file is missing,
 * truncated or of another shape. */
bool   npy_cache_map  (const NpyCache *cache, const char *name, NpyArray *shape);
Status npy_cache_write(const NpyCache *cache, const char *name, const NpyArray *index);
/* Writes the description; other runs use the entry from then on. */
Status npy_cache_finish(const NpyCache *cache);
#endif
