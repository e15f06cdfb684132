# What the compiler says of a word without a meaning.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
    add_test(NAME conf.words COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/words.py ${CMAKE_SOURCE_DIR} ${CMAKE_C_COMPILER})
    set_tests_properties(conf.words PROPERTIES LABELS conf TIMEOUT 60)
endif()
