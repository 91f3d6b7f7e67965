-- Remove the expiry of an object. Idempotent.
-- USES  once object
-- KEYS  1 the mark of the request series
--       2.. its keys
-- ARGV  1 see lib/object.lua
--       2 number of the request
--       3 how long to keep the mark, in ms
-- RETURN  1 done, 0 it had none, or the object does not exist
local known = recall(KEYS[1], ARGV[2])
if known then return answered(known) end
present(2)
local done = 0
for i = 2, #types + 1 do done = math.max(done, redis.call('persist', KEYS[i])) end
return answer(done)
