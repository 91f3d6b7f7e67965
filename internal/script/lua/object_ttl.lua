-- Look how long an object lasts.
-- KEYS  its keys
-- RETURN  what the first of them that exists has left in ms, -1 if it has no end, -2 if it has none of them
for _, key in ipairs(KEYS) do
  local left = redis.call('pttl', key)
  if left ~= -2 then return left end
end
return -2
