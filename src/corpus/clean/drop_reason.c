/* The names of the reasons, as they are in tables, reports and --dropped. They are part of the file
 * formats. */
#include "corpus/clean/drop_reason.h"

const char *drop_reason_name(int rule)
{
    if (rule < DROP_EMPTY) return record_fault_name((RecordFaultKind)(rule - DROP_FAULT));
    if (rule >= DROP_QUALITY && rule < DROP_CONTAMINATED) return quality_row[rule - DROP_QUALITY].name;
    switch (rule) {
    case DROP_EMPTY:        return "empty";
    case DROP_WARNED:       return "warned";
    case DROP_CHARSET:      return "charset";
    case DROP_LANGUAGE:     return "language";
    case DROP_CONTAMINATED: return "contaminated";
    case DROP_EXACT:        return "exact duplicate";
    case DROP_NEAR:         return "near duplicate";
    case DROP_PARTS:        return "repeated parts";
    }
    return "kept";
}
