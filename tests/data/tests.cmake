script_tests(data changed raw_tokens)                       # data that changes under a run
add_custom_target(data_raw_tokens DEPENDS jotun)     # what tests/planted/bugs.py builds for it
