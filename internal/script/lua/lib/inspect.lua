-- How to recognize the hash of a lock. It has a field for each owner, <client>:<number> -> hold count, with :write appended for a
-- writer. The only other fields are mode, and the proclaimed value of the leader of an election.
local SAID = 65536 -- more than the maximum length of a proclaimed value
local OWNER = 512  -- bytes; more than the maximum length of an owner
local HEX = '%x%x%x%x'
local UUID = '^' .. HEX .. HEX .. '%-' .. HEX .. '%-' .. HEX .. '%-' .. HEX .. '%-' .. HEX .. HEX .. HEX .. ':'

-- spend reports whether n more bytes may be read. Data of other programs may be of any size, and the server does not tell the length of
-- an element before it is read. So elements are read one by one, and none after the first that is too long.
local bytes = 1048576
local function spend(n)
  bytes = bytes - n
  return bytes >= 0
end

-- peek returns up to two fields of a hash, without their values. Redis 6.0 does not support it, and gets none.
local function peek(key)
  local found = redis.pcall('hrandfield', key, 2)
  return found.err and {} or found
end

-- names returns about most fields of a hash at most, or nil if there is too much to read.
local function names(key, most)
  local found, seen, cursor = {}, {}, '0'
  repeat
    local page = redis.call('hscan', key, cursor, 'count', 1)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local field = page[2][i]
      if not spend(#field + #page[2][i + 1]) then return nil end
      if not seen[field] then found[#found + 1] = field end
      seen[field] = true
    end
  until cursor == '0' or #found >= most
  return found
end

-- entered returns the hold count of a field, or nil if the field does not belong to an owner. It does not read other values, since
-- they may be of any size.
local function entered(key, field, mode, endless)
  if #field > OWNER then return nil end
  local owner = mode == 'write' and string.match(field, '^(.*):write$') or field
  if not string.find(owner, ':%d+$') or redis.call('hstrlen', key, field) > 5 then return nil end
  -- A lock without an expiry is rare, but such a field in data of other programs is not.
  if endless and not string.find(owner, UUID) then return nil end
  return tonumber(string.match(redis.call('hget', key, field) or '', '^[1-9]%d*$') or nil)
end

-- lock returns the mode of a lock, or '' if it has none, the fields of at most most owners, their counts, and the number of further
-- fields. It returns nil if the hash is not a lock. If the caller has named the lock, owners of a lock without an expiry need not
-- look like those of Redisson and Holdfast.
local function lock(key, most, named)
  local size, long = redis.call('hlen', key), redis.call('hstrlen', key, 'mode')
  local mode = (long == 4 or long == 5) and redis.call('hget', key, 'mode') or ''
  if mode ~= 'read' and mode ~= 'write' then mode = '' end
  if mode == '' and size > 2 then return nil end
  local besides, endless = mode == '' and 'leader' or 'mode', not named and redis.call('pttl', key) == -1
  local owners, counts, others = {}, {}, 0
  local function note(field)
    if field == besides then
      others = others + 1
      return redis.call('hstrlen', key, field) <= SAID
    end
    local n = entered(key, field, mode, endless)
    owners[#owners + 1], counts[#counts + 1] = field, n
    return n
  end
  -- HSCAN also reads the values, which may be of any size. Two fields show whether a hash is that of another program: one of them is
  -- not the mode.
  local fields = peek(key)
  for _, field in ipairs(fields) do
    if not (spend(#field) and note(field)) then return nil end
  end
  if #fields < size then
    owners, counts, others = {}, {}, 0
    fields = names(key, size <= most + 1 and size or most)
    if not fields then return nil end
    for _, field in ipairs(fields) do
      if not note(field) then return nil end
    end
  end
  if #owners == 0 or mode == '' and #owners > 1 then return nil end
  if mode ~= '' then others = 1 end -- HSCAN may not have returned it
  return mode, owners, counts, size - others - #owners
end
