-- Rename an object. Running it twice does what running it once does.
-- KEYS  1 the mark of the lane
--       2.. its keys, then those by the new name
-- ARGV  1 see lib/object.lua
--       2 number of the request
--       3 how long to remember it, in ms
--       4 1: also if something has the new name
-- RETURN  1 renamed, 0 something has the new name, -1 there is nothing to rename
local known = recall(KEYS[1], ARGV[2])
if known then return answered(known) end
if not present(2) then return answer(-1) end
if present(2 + #types) and ARGV[4] == '0' then return answer(0) end
for i = 2, #types + 1 do
  local new = KEYS[i + #types]
  if redis.call('exists', KEYS[i]) == 1 then
    redis.call('rename', KEYS[i], new)
  else
    redis.call('del', new) -- nothing of the old one may stay
  end
end
return answer(1)
