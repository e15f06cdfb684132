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

/* An array without elements so far. */
static inline NpyArray npy_array(NpyType type, int64_t rows, int columns)
{
    return (NpyArray){ .type = type, .rows = rows, .columns = columns };
}
/* Its elements, all 0, to be filled through `made`. */
Status  npy_array_make (NpyArray *index);
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
/* Writes the description; other runs use the entry from then on. */
Status npy_cache_finish(const NpyCache *cache);

/* The arrays of an entry, with their names. make: npy_array_make, and fills them; valid: of mapped arrays. */
typedef struct {
    struct { const char *name; NpyArray *array; } member[3];
    int      members;
    Status (*make) (void *context);
    bool   (*valid)(void *context);
    void    *context;
} NpyEntry;
/* Maps the arrays, which are without elements so far; where they are missing, damaged or not valid, makes and
 * writes them. */
Status npy_cache_open(const NpyCache *cache, const NpyEntry *entry);
#endif
