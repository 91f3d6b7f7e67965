-- Dump an object.
-- USES  object
-- KEYS  its keys
-- ARGV  1 see lib/object.lua
-- RETURN  for each key the reply of DUMP, '' if it does not exist
present(1)
local dumps = {}
for i, key in ipairs(KEYS) do dumps[i] = redis.call('dump', key) or '' end
return dumps
