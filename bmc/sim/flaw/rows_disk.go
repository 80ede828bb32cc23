package flaw

var diskRows = []Row{}
