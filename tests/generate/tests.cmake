script_tests(generate transformers_texts broken_weights)
add_custom_target(generate_transformers_texts DEPENDS jotun)
add_custom_target(generate_broken_weights DEPENDS jotun)     # what tests/planted/bugs.py builds for it
