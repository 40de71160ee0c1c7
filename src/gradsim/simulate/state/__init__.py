"""Parts of the state, one file each: initial state, parameters, update and motion; smoke advances on its own."""
