-- Move an object to another database. Idempotent.
-- USES  once object
-- KEYS  1 the mark of the request series
--       2.. its keys
-- ARGV  1 see lib/object.lua
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 the current database
--       5 the new database
-- RETURN  1 moved, 0 a key of that name exists there, or the object does not exist
local known = recall(KEYS[1], ARGV[2])
if known then return answered(known) end
if not present(2) then return answer(0) end
local taken = false
redis.call('select', ARGV[5])
for i = 2, #types + 1 do taken = taken or redis.call('exists', KEYS[i]) == 1 end
redis.call('select', ARGV[4])
if taken then return answer(0) end
for i = 2, #types + 1 do redis.call('move', KEYS[i], ARGV[5]) end
return answer(1)
