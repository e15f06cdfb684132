script_tests(logs files)
