# A Llama-3-like and a Qwen2-like tokenizer on many languages; goldens by tokenizers and tiktoken.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
    add_test(NAME text.mixed COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/oracles/mixed.py $<TARGET_FILE:jotun>)
    set_tests_properties(text.mixed PROPERTIES LABELS "text;slow" TIMEOUT ${limit})
    add_test(NAME text.patterns COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/patterns.py $<TARGET_FILE:jotun>)
    set_tests_properties(text.patterns PROPERTIES LABELS "text;slow" TIMEOUT ${limit})
endif()
