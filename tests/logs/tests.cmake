script_tests(logs files)
add_custom_target(logs_files DEPENDS jotun)            # what the test needs, by its name: tests/planted/bugs.py builds it
