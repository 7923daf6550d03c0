// The precompiled headers of all tests need a target; this is all it compiles.
