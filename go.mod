module polystalk

go 1.26
