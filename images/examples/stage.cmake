# Run by the build: fills STAGE with PROGRAMS and LIBRARIES, stripped, SCRIPTS, and the sources below SOURCES. In a
# new folder that is then renamed: whoever builds an image at the same time sees the old one or the
# new one.
set(new ${STAGE}.new)
file(REMOVE_RECURSE ${new})
file(MAKE_DIRECTORY ${new}/bin ${new}/lib ${new}/share/mare)
file(COPY ${PROGRAMS} DESTINATION ${new}/bin)
file(COPY ${LIBRARIES} DESTINATION ${new}/lib)
file(GLOB binaries ${new}/bin/* ${new}/lib/*)
execute_process(COMMAND ${STRIP} --strip-all ${binaries} COMMAND_ERROR_IS_FATAL ANY)
if(SCRIPTS)
  file(COPY ${SCRIPTS} DESTINATION ${new}/bin)
endif()
file(COPY ${SOURCES}/ DESTINATION ${new}/share/mare/examples
  FILES_MATCHING PATTERN "*.c" PATTERN "*.h" PATTERN "*.md" PATTERN "mare-hpl")
file(REMOVE_RECURSE ${STAGE})
file(RENAME ${new} ${STAGE})
