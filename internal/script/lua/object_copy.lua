-- Copy an object. Running it twice does what running it once does.
-- KEYS  1 the mark of the lane
--       2.. its keys, then those of the copy
-- ARGV  1 see lib/object.lua
--       2 number of the request
--       3 how long to remember it, in ms
--       4 1: also if something has the name of the copy
-- RETURN  1 copied, 0 something has the name of the copy, -1 there is nothing to copy
local known = recall(KEYS[1], ARGV[2])
if known then return answered(known) end
if not present(2) then return answer(-1) end
if present(2 + #types) and ARGV[4] == '0' then return answer(0) end
-- First what needs memory: a server that has none refuses it, unless the script has written before.
for i = 2, #types + 1 do
  if redis.call('exists', KEYS[i]) == 1 then redis.call('copy', KEYS[i], KEYS[i + #types], 'replace') end
end
for i = 2, #types + 1 do
  if redis.call('exists', KEYS[i]) == 0 then redis.call('del', KEYS[i + #types]) end
end
return answer(1)
