#include "ui/cli/app.h"

int main(int argc, char** argv) {
  return mare::cli::run(argc, argv);
}
