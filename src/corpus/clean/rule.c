#include "corpus/clean/rule.h"

const char *rule_word(int rule)
{
    if (rule < RULE_EMPTY) return record_fault_word((RecordFaultKind)(rule - RULE_FAULT));
    if (rule >= RULE_QUALITY && rule < RULE_CONTAMINATED) return quality_row[rule - RULE_QUALITY].name;
    switch (rule) {
    case RULE_EMPTY:        return "empty";
    case RULE_WARNED:       return "warned";
    case RULE_CHARSET:      return "charset";
    case RULE_LANGUAGE:     return "language";
    case RULE_CONTAMINATED: return "contaminated";
    case RULE_EXACT:        return "exact duplicate";
    case RULE_NEAR:         return "near duplicate";
    case RULE_PARTS:        return "repeated parts";
    }
    return "kept";
}
