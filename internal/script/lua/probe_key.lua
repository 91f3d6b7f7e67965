-- Do nothing: the server looks whether the user may use the keys.
-- KEYS  the keys
return 1
