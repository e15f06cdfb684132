# One plug-in for each MPI found, since their binary interfaces differ; the binary itself links none.
