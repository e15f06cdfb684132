script_tests(compat cases)
set_tests_properties(compat.hostile_test PROPERTIES COST 60 TIMEOUT 1800)            # endless scripts, in two ways, as two users
