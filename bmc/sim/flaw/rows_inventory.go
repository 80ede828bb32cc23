package flaw

var inventoryRows = []Row{}
