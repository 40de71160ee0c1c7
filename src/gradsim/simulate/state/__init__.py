"""Parts of the state, one file each: initial state, parameters, update and motion. Smoke has a rollout of its own."""
