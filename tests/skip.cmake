message("skipped: ${WHY}")
