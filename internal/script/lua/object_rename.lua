-- Rename an object. Idempotent.
-- USES  once object
-- KEYS  1 the mark of the request series
--       2.. its keys, then the keys of the new name
-- ARGV  1 see lib/object.lua
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 1: also if the target exists
-- RETURN  1 renamed, 0 the target exists, -1 the object does not exist
local known = recall(KEYS[1], ARGV[2])
if known then return answered(known) end
if not present(2) then return answer(-1) end
if present(2 + #types) and ARGV[4] == '0' then return answer(0) end
for i = 2, #types + 1 do
  local new = KEYS[i + #types]
  if redis.call('exists', KEYS[i]) == 1 then
    redis.call('rename', KEYS[i], new)
  else
    redis.call('del', new) -- no key of the old target may stay
  end
end
return answer(1)
