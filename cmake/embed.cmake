# A file as an array of C:   cmake -DFROM=page.html -DTO=page_bytes.c -DNAME=server_page -P embed.cmake
file(READ ${FROM} bytes HEX)
string(LENGTH "${bytes}" count)
math(EXPR count "${count} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${TO} "#include <stddef.h>\nextern const char ${NAME}[];\nextern const size_t ${NAME}_bytes;\nconst char ${NAME}[] = {\n${bytes}\n};\nconst size_t ${NAME}_bytes = ${count};\n")
