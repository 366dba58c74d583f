# Sets RESULT to the content of the file PATH as raw strings of C++, which it is when they are compiled.
function(tsc_raw_string path result)
  # Brackets and semicolons are list syntax to CMake: the text must never pass as a list.
  file(READ ${path} content)
  string(LENGTH "${content}" length)
  set(pieces "")
  set(position 0)
  # Compilers bound the length of one literal (64 KiB in the standard).
  while(position LESS length)
    string(SUBSTRING "${content}" ${position} 12000 piece)
    string(APPEND pieces "R\"tsc(${piece})tsc\"\n")
    math(EXPR position "${position} + 12000")
  endwhile()
  set(${result} "${pieces}" PARENT_SCOPE)
endfunction()
