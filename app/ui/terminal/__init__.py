"""Terminal services: keys and colours, notifications, the external editor, garbage collection."""
