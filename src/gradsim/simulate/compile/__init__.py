"""From a scene to flat, batched arrays: topology, parameter arrays, initial state, signature."""
