"""The values of one JSON type that a schema allows, as sets closed under intersection, union and complement."""
