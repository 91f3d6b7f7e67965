-- Move an object to another database. Running it twice does what running it once does.
-- KEYS  1 the mark of the lane
--       2.. its keys
-- ARGV  1 see lib/object.lua
--       2 number of the request
--       3 how long to remember it, in ms
--       4 the database that it is in
--       5 the other one
-- RETURN  1 moved, 0 something has its name there, or there is nothing to move
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
