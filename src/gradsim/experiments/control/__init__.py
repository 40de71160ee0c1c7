"""Control from a picture: a walker, a gear and a cloth, each driven to a pose that is seen in one image."""
