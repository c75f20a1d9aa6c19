"""Personal data: found by its form and its checksum."""
