"""Values of the client: endpoint address, request, response updates, profile, prices."""
